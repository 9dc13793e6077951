"""One question after another, and what they come to."""

from __future__ import annotations

import re

from pearl.llm.offline.multihop.comparing import Comparison, compare
from pearl.llm.offline.multihop.given import ASKED, covers, same
from pearl.llm.offline.multihop.names import day, number
from pearl.llm.offline.multihop.parts import parts

_LATE = re.compile(
    r"\b(?:later|latest|last|younger|youngest|more recent(?:ly)?"
    r"|newer|newest|most recent(?:ly)?)\b",
    re.I,
)
_LEAST = re.compile(r"\b(?:fewer|fewest|less|least|lower|lowest|smaller|shorter|smallest)\b", re.I)
_SAME = re.compile(r"\b(?:same|shared?|in common|both|similar)\b", re.IGNORECASE)
_TRUTH = re.compile(r"^(?:are|is|was|were|do|does|did|have|has|had|can)\b", re.IGNORECASE)
_WITHIN = {"english": "british", "scottish": "british", "welsh": "british"}
_DESCRIBED = re.compile(r"^(?:who|what) (?:is|was|are|were) ", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")


def next_question(question: str, gone: tuple[str, ...] = ()) -> str | None:
    """The first sub-question of a question; None where it is simple.

    Args:
        question: what is asked, with what has been found out put in.
        gone: sub-questions not to be asked again.
    """
    comparison = compare(question)
    if comparison:
        asked = [one for _, one in comparison.questions()]
    else:
        asked = [one.question for one in parts(question)]
    return next((one for one in asked if not any(same(one, it) for it in gone)), None)


def put(question: str, sub_question: str, answer: str) -> str:
    """The question with a sub-question's answer in its place."""
    if not answer or len(question) > ASKED:
        return question
    comparison = compare(question)
    if comparison:
        for place, one in comparison.questions():
            if same(one, sub_question):
                return comparison.noted(place, answer)
    for part in parts(question):
        if same(part.question, sub_question):
            return part.answered(question, answer)
    described = _DESCRIBED.sub("", sub_question).rstrip(" ?.")
    named = described.startswith("the ") and " " in described[4:]
    return question.replace(described, answer, 1) if named else question


def is_solved(question: str, sub_question: str) -> bool:
    """Whether nothing is left of a question but the sub-question just answered."""
    comparison = compare(question)
    if comparison:
        return not comparison.questions()
    return same(question, sub_question) or covers(sub_question, question)


def replay(question: str, solved: list[tuple[str, str]]) -> str:
    """A question with the answers of its sub-questions put in, one after the other."""
    for sub_question, answer in solved:
        question = put(question, sub_question, answer)
    return question


def conclude(question: str, solved: list[tuple[str, str]]) -> str:
    """What the answers of sub-questions come to; empty where there are none."""
    comparison = compare(replay(question, solved))
    if comparison and not comparison.questions():
        return _judged(comparison)
    return next((answer for _, answer in reversed(solved) if answer), "")


def _judged(comparison: Comparison) -> str:
    one, two = (thing.notes[-1] for thing in comparison.things)
    either = re.search(r"\bor\b", comparison.frame)
    if _TRUTH.match(comparison.frame) and not either:
        truths = {one.lower(), two.lower()}
        if truths <= {"yes", "no"}:
            return "yes" if truths == {"yes"} else "no"
        return "yes" if _alike(one, two) else "no"
    if _SAME.search(comparison.frame):
        shared = [word for word in _words(one) if word in _words(two)]
        return " ".join(shared) or one
    first, second = (thing.name for thing in comparison.things)
    return first if _first_wins(comparison, one, two) else second


def _first_wins(comparison: Comparison, one: str, two: str) -> bool:
    left, right = day(one), day(two)
    if "live?" in comparison.chain[-1] or left is None or right is None:
        return _more(comparison.frame, one, two)
    late = _LATE.search(comparison.frame)
    return (left >= right) if late else (left <= right)


def _more(frame: str, one: str, two: str) -> bool:
    if {one.lower(), two.lower()} == {"yes", "no"}:
        return one.lower() == "yes"
    left, right = _size(one), _size(two)
    if left is None or right is None:
        # Where one of the two is what the question names, that one is meant.
        said = set(_words(frame))
        shared = len(said & set(_words(one))) - len(said & set(_words(two)))
        return shared > 0 or (shared == 0 and right is None)
    return left <= right if _LEAST.search(frame) else left >= right


def _size(text: str) -> float | None:
    """A number, or the years from one to another."""
    years = [int(year) for year in re.findall(r"\b\d{3,4}\b", text)]
    if len(years) > 1:
        return float(years[-1] - years[0])
    return number(text)


def _alike(one: str, two: str) -> bool:
    shorter, longer = sorted((_words(one), _words(two)), key=len)
    # Two places are in one land when what they end with is one.
    return bool(shorter) and (set(shorter) <= set(longer) or shorter[-1:] == longer[-1:])


def _words(text: str) -> list[str]:
    found = [word.lower() for word in _WORD.findall(text)]
    return [_WITHIN.get(word, word) for word in found]
