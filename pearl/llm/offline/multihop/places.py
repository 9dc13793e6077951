"""Where something is said to be, to be born or to die."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pearl.llm.offline.multihop import relations
from pearl.llm.offline.multihop.forms import is_verb
from pearl.llm.offline.multihop.names import MONTH, capitals, dates
from pearl.llm.offline.multihop.paragraphs import plain
from pearl.source import Span

_WIDE = re.compile(
    r"\b(?:county|country|nation|state|province|region|city|town|village)\b(?! of (?:birth|death))",
    re.IGNORECASE,
)
_FURTHER = re.compile(r", (?=[A-Z\u00c0-\u00de])")
_IN = re.compile(
    r"\b(?:in|at|near|from|to|on) (?:the )?(?:[a-z]+ (?:of )?){0,3}?(?=[A-Z\u00c0-\u00de])"
)
_BRACKETS = re.compile(r"\(([^()]{7,300})\)")
_YEAR = re.compile(r"\d{3,4}")


def placed(question: str, sentence: str) -> Iterator[str]:
    """The places that a sentence names, where a question asks for one.

    Args:
        question: what is asked.
        sentence: where to look.
    """
    born, died = relations.BORN.search(question), relations.DIED.search(question)
    buried = relations.BURIED.search(question)
    start = 0
    if buried and not (clue := relations.BURIED.search(sentence)):
        return
    if buried and clue:
        start = clue.end()
    elif born or died:
        clue = (relations.BORN if born else relations.DIED).search(sentence)
        if not clue:
            yield from _lived_in(sentence, -1 if died else 0)
            return
        start = clue.end()
    known = plain(question)
    spans = list(capitals(sentence))
    for found in _IN.finditer(sentence, start):
        span = next((one for one in spans if one.start <= found.end() < one.end), None)
        if span is None:
            continue
        found_at = _place(sentence, Span(found.end(), span.end), spans)
        name = sentence[found_at.start : found_at.end]
        if plain(name) not in known and not dates(name) and not MONTH.fullmatch(name):
            yield _as_wide(question, name)


def lived(sentence: str) -> str:
    """What stands in the brackets of *Ada (1 May 1820 - 3 June 1890)*; empty where none do."""
    for found in _BRACKETS.finditer(sentence):
        years = list(_YEAR.finditer(found[1]))
        between = found[1][years[0].end() : years[-1].start()] if years else ""
        if any(dash in between for dash in "-–—"):
            return found[1]
    return ""


def _lived_in(sentence: str, which: int) -> Iterator[str]:
    """The places beside the days in *(Ulm, 1 May 1820 - 3 June 1890, Rome)*."""
    text = lived(sentence)
    spans = [one for one in capitals(text) if not dates(text[one.start : one.end])]
    # An era, as C.E., is in capitals too.
    named = [
        one
        for one in spans
        if not MONTH.match(text[one.start : one.end]) and "." not in text[one.start : one.end]
    ]
    if named:
        span = _place(text, named[which], spans) if which == 0 else named[which]
        yield text[span.start : span.end]


def _as_wide(question: str, place: str) -> str:
    """Of *Ulm, Orm County, Germany* the part that is asked for."""
    asked = _WIDE.search(question)
    around = place.split(", ")
    if not asked or len(around) == 1:
        return place
    match asked[0].lower():
        case "county":
            return next((one for one in around if one.endswith("County")), place)
        case "country" | "nation":
            return around[-1]
        case "state" | "province" | "region":
            last = len(around) - 1
            return around[last - 1 if around[last] in ("United States", "U.S.", "US") else last]
        case _:
            return around[0]


def _place(sentence: str, span: Span, spans: list[Span]) -> Span:
    """A place with what it lies in: *Ulm, Germany*."""
    further = _FURTHER.match(sentence, span.end)
    following = next((one for one in spans if further and one.start == further.end()), None)
    if following is None or dates(sentence[following.start : following.end]):
        return span
    behind = sentence[following.end :].split(maxsplit=1)[:1]
    if sentence[following.end : following.end + 1] == " " and behind and is_verb(behind[0]):
        return span
    return _place(sentence, Span(span.start, following.end), spans)
