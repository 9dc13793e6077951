"""The words of a sentence that answer a question: a name, a place, a day, a number."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pearl.llm.offline.multihop import relations
from pearl.llm.offline.multihop.given import content
from pearl.llm.offline.multihop.names import DATE, IMPERSONAL, MONTH, capitals, dates, numbers
from pearl.llm.offline.multihop.paragraphs import Paragraph, plain
from pearl.llm.offline.multihop.persons import describes, is_about_person, own, related
from pearl.llm.offline.multihop.places import lived, placed
from pearl.source import Span

FAR = 80
"""Characters between a name and the question's words that halve what it is worth."""

_PERSON = re.compile(r"^(?:who|whose|whom)\b", re.IGNORECASE)
_IN_BEFORE = re.compile(r"\b(?:in|at|near|from) (?:the )?$")
_IS_A = re.compile(
    r"\b(?:is|was|were|are) (?:an?|the) (?P<what>[^.;()]{2,160}?)"
    r"(?=[.;(]|,? (?:who|that|which|known|best|from|for|in|by|at|of|with|whose|and is|directed)\b"
    r"|$)"
)
_BORN_IN = re.compile(r"\b[\w]*-born\b")
_HIGH = re.compile(r"\b\d[\d,.]* ?(?:m|metres|meters|ft|feet|km|miles)\b")


def told(question: str, one: Paragraph, sentence: str) -> Iterator[str]:
    """The answers that a sentence gives to a question of a known form, the surest first."""
    if relations.YES_OR_NO.match(question):
        return
    if relations.OF_A_LAND.search(question):
        yield from _first(relations.LANDS, sentence)
    elif relations.WORKED.search(question):
        yield from _worked(sentence)
    elif relations.CAUSED.search(question):
        yield from (found["cause"].strip() for found in relations.CAUSE.finditer(sentence))
    elif relations.AWARDED.search(question):
        names = (sentence[one.start : one.end] for one in capitals(sentence))
        yield from (name for name in names if relations.AWARD.search(name))
    elif question.lower().startswith("how long did"):
        yield from filter(None, [lived(sentence)])
    elif relations.DATED.search(question):
        yield from _dated(question, sentence)
    elif relations.PLACED.search(question):
        yield from placed(question, sentence)
    elif relations.COUNTED.search(question):
        yield from _counted(question, sentence)
    else:
        yield from related(question, one, sentence)


def any_name(question: str, one: Paragraph, sentence: str) -> Iterator[tuple[float, str]]:
    """The names in a sentence that the question does not have, each with what it is worth.

    One that stands near the question's words is worth more, and so is one of
    the kind that is asked for.
    """
    known = plain(question)
    asked = content(question)
    places = [
        word.start() for word in re.finditer(r"[^\W_]+", sentence) if content(word[0]) & asked
    ]
    person = _PERSON.match(question) is not None
    titled = one.title and not _known(one.title, known) and _opens(one, sentence)
    if titled and (not person or is_about_person(one)):
        yield 1.0, one.title
    for span in capitals(sentence):
        name = sentence[span.start : span.end]
        if _known(name, known) or describes(sentence, span) or MONTH.fullmatch(name):
            continue
        far = min((_far(span, at) for at in places), default=len(sentence))
        worth = 1 / (1 + far / FAR)
        if person and IMPERSONAL.search(name):
            continue
        if person and (" " not in name or _IN_BEFORE.search(sentence[: span.start])):
            worth *= 0.6
        yield worth, own(name) or name


def of_kind(question: str, text: str) -> str | None:
    """The words of a text that are of the kind a question asks for; None where none are."""
    if relations.DATED.search(question):
        found = dates(text)
    elif relations.COUNTED.search(question):
        found = numbers(text)
    elif relations.OF_A_LAND.search(question):
        found = [Span(*one.span()) for one in relations.LANDS.finditer(text)]
    else:
        found = list(capitals(text))
    return text[found[0].start : found[0].end] if found else None


def _far(span: Span, at: int) -> int:
    return max(span.start - at, at - span.end, 0)


def _known(name: str, known: str) -> bool:
    return plain(name) in known


def _opens(one: Paragraph, sentence: str) -> bool:
    """Whether a sentence is about its paragraph's title."""
    first = one.sentences[:1] == (sentence,)
    return first or sentence.startswith(("He ", "She ", "It ", "They ", "His ", "Her ", "Its "))


def _first(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    yield from (found[0] for found in pattern.finditer(text))


def _worked(sentence: str) -> Iterator[str]:
    for found in _IS_A.finditer(sentence):
        what = _BORN_IN.sub("", relations.LANDS.sub("", found["what"])).strip(" -–,")
        yield " ".join(what.split())


def _dated(question: str, sentence: str) -> Iterator[str]:
    spans = dates(sentence)
    born, died = relations.BORN.search(question), relations.DIED.search(question)
    if not born and not died:
        yield from _near(question, sentence, spans)
        return
    clue = (relations.BORN if born else relations.DIED).search(sentence)
    after = [span for span in spans if clue and span.start >= clue.start()]
    inner = list(DATE.finditer(lived(sentence)))
    if inner:
        yield (inner[0] if born else inner[-1])[0]
    if after and (born or not (relations.BORN.search(sentence) and not clue)):
        yield sentence[after[0].start : after[0].end]


def _counted(question: str, sentence: str) -> Iterator[str]:
    if re.search(r"\bhow (?:high|tall)\b", question, re.IGNORECASE):
        yield from _first(_HIGH, sentence)
    taken = dates(sentence)
    spans = [
        span
        for span in numbers(sentence)
        if not any(one.start <= span.start < one.end for one in taken)
        and sentence[span.start : span.end] not in question
    ]
    yield from _near(question, sentence, spans)


def _near(question: str, sentence: str, spans: list[Span]) -> Iterator[str]:
    """Spans, those first that stand nearest to the question's words."""
    asked = content(question)
    held = [
        Span(*word.span())
        for word in re.finditer(r"[^\W\d_]+", sentence)
        if content(word[0]) & asked
    ]

    # A number tells of what stands before it rather than of what follows.
    def away(span: Span) -> int:
        before = [span.start - one.end for one in held if one.end <= span.start]
        behind = [3 * (one.start - span.end) for one in held if one.start >= span.end]
        return min((*before, *behind), default=0)

    for span in sorted(spans, key=away):
        yield sentence[span.start : span.end]
