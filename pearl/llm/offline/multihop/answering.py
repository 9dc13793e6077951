"""Questions answered in one reply: the answer alone, its reasons, its evidence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pearl.llm.calls import FillSchema
from pearl.llm.offline.multihop.given import asked, body, listed, shortened
from pearl.llm.offline.multihop.hops import conclude, is_solved, next_question, put
from pearl.llm.offline.multihop.searching import Found, search
from pearl.llm.offline.multihop.spans import of_kind
from pearl.llm.offline.multihop.states import triple

HOPS = 6
"""How many sub-questions are asked, at most."""

_LABELS = re.compile(r"\b[A-Z]{3,}(?: [A-Z]{3,})*\b")
_YES = re.compile(r"^\W*(yes|no)\b", re.IGNORECASE)
_STEP = re.compile(
    r"Action: (?P<action>Search|Lookup|Finish)\[(?P<told>.*?)\] Observation: (?P<seen>.*)$",
    re.IGNORECASE | re.DOTALL,
)
_TITLED = re.compile(r"(?P<title>[^\n:]{1,120}): (?P<text>.+)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Hop:
    """A sub-question, and what the document says on it."""

    question: str
    found: Found


def walk(document: str, question: str) -> tuple[list[Hop], str]:
    """Take a question apart and answer its parts, one after the other.

    Args:
        document: where to look.
        question: what is asked.

    Returns:
        The hops in order, and what they come to; empty where nothing does.
    """
    hops: list[Hop] = []
    now, gone = question, list[str]()
    for _ in range(HOPS):
        part = next_question(now, tuple(gone))
        one = Hop(part or now, search(document, part or now))
        gone.append(one.question)
        if one.found.answer is not None:
            hops.append(one)
            now = put(now, one.question, one.found.answer)
        if part is None or is_solved(now, one.question):
            break
    return hops, conclude(question, [(one.question, one.found.answer or "") for one in hops])


def short_answer(call: FillSchema) -> Mapping[str, Any]:
    """The words of a long answer that are of the kind the question asks for."""
    question, answer = asked(call), asked(call, "answer")
    said = _YES.match(answer)
    if said:
        return {"answer": said[1].lower()}
    labels = [one for one in _options(question) if one in answer]
    if len(labels) == 1:
        return {"answer": labels[0]}
    plain = answer.removeprefix("> ")
    if len(plain.split()) <= 5:
        return {"answer": plain.strip(" .")}
    text = "\n\n".join(re.sub(r" ?> ", "\n\n", answer).split("\n\n"))
    found = search(text, question).answer or of_kind(question, answer)
    return {"answer": found or shortened(plain, 100)}


def normal(call: FillSchema) -> Mapping[str, Any]:
    """The answer of one look at the document."""
    return {"answer": search(body(call), asked(call)).answer or ""}


def normal_with_evidence(call: FillSchema) -> Mapping[str, Any]:
    """The answer of one look, and the sentence it is from."""
    question = asked(call)
    found = search(body(call), question)
    answer = found.answer or ""
    return {"answer": answer, **_evidence([Hop(question, found)])}


def reasoned(call: FillSchema) -> Mapping[str, Any]:
    """The answer of one hop after another, and the hops as its reasons."""
    hops, answer = walk(body(call), asked(call))
    return {"reasoning": _reasons(hops), "answer": answer}


def reasoned_with_evidence(call: FillSchema) -> Mapping[str, Any]:
    """The same, with the sentences of every hop."""
    hops, answer = walk(body(call), asked(call))
    return {"reasoning": _reasons(hops), "answer": answer, **_evidence(hops)}


def self_prompted(call: FillSchema) -> Mapping[str, Any]:
    """Sub-questions and their answers, and the last of it."""
    question = asked(call)
    hops, answer = walk(body(call), question)
    told = [{"question": one.question, "answer": one.found.answer or ""} for one in hops]
    return {"hops": told or [{"question": question, "answer": answer}], "answer": answer}


def react(call: FillSchema) -> Mapping[str, Any]:
    """The next search for the part of the question that is open; Finish where none is."""
    question = asked(call)
    now, gone = question, list[str]()
    known: list[tuple[str, str]] = []
    for step in listed(call, "steps"):
        seen = _STEP.search(step)
        if seen is None or not seen["told"]:
            continue
        part = next_question(now, tuple(gone)) or now
        gone.append(part)
        answer = search(_observed(seen["seen"]), part).answer
        if answer:
            known.append((part, answer))
            now = put(now, part, answer)
        if same_end(now, part, tuple(gone)):
            return _finish(question, known)
    if listed(call, "refused"):
        return _finish(question, known)
    part = next_question(now, tuple(gone)) or now
    if any(part == one for one in gone):
        return _finish(question, known)
    thought = f"{_reasons_of(known)} I search for: {part}".strip()
    return {"thought": thought, "action": "Search", "input": shortened(part, 500) or "?"}


def same_end(now: str, part: str, gone: tuple[str, ...]) -> bool:
    """Whether a question is at its end with a part of it.

    Args:
        now: the question with what is known put in.
        part: what was asked last.
        gone: what has been asked.
    """
    return is_solved(now, part) or (next_question(now, gone) is None and part == now)


def _finish(question: str, known: list[tuple[str, str]]) -> Mapping[str, Any]:
    answer = conclude(question, known) or "unknown"
    return {
        "thought": f"{_reasons_of(known)} I answer with what was found.".strip(),
        "action": "Finish",
        "input": shortened(answer, 500),
    }


def _observed(text: str) -> str:
    """An observation as a document: a title, a colon, a paragraph."""
    found = _TITLED.match(" ".join(text.split()))
    return f"# {found['title']}\n\n{found['text']}" if found else text


def _options(question: str) -> list[str]:
    """Labels in capitals that a question says to answer with."""
    led = re.search(r"\banswer\b", question[:2000], re.IGNORECASE)
    return _LABELS.findall(question[:2000], led.end()) if led else []


def _reasons(hops: list[Hop]) -> str:
    return " ".join(
        f"{one.question} {' '.join(one.found.evidence)} So: {one.found.answer}." for one in hops
    )


def _reasons_of(known: list[tuple[str, str]]) -> str:
    return " ".join(f"{question} {answer}." for question, answer in known)


def _evidence(hops: list[Hop]) -> Mapping[str, Any]:
    facts = dict.fromkeys(one for hop in hops for one in hop.found.evidence)
    triples = [
        triple(hop.found.titles, hop.question, hop.found.answer)
        for hop in hops
        if hop.found.answer is not None
    ]
    return {"supporting_facts": list(facts), "triples": triples}
