"""Quotes in an answer, and where in the document they stand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pearl.graph import dependencies
from pearl.plan import Plan
from pearl.source import Source, Span
from pearl.values import Value, as_text

_LINE = re.compile(r"^[ \t]*>[ \t]?(.+)$", re.MULTILINE)
_QUOTED = re.compile(r"\"([^\"\n]{24,})\"|“([^”\n]{24,})”")


@dataclass(frozen=True, slots=True)
class Quote:
    """A passage that an answer rests on.

    Args:
        text: the passage, to the letter of the document where it was found.
        span: where it stands, or None where the document does not have it.
        step: the step whose output quotes it.
    """

    text: str
    span: Span | None
    step: str


def evidence(plan: Plan, values: Mapping[str, Value], ends: Sequence[str],
             document: Source) -> list[Quote]:  # fmt: skip
    """The quotes behind an answer, in document order; those not found stand last.

    The answer's own quotes count; where it has none, those of the steps it
    was made from.

    Args:
        plan: the plan that ran.
        values: its outputs.
        ends: the names of the steps that make up the answer.
        document: where to look the quotes up.
    """
    needs = dependencies(plan.steps)
    wanted = list(ends)
    seen: set[str] = set()
    while wanted:
        found = [quote for name in wanted for quote in _quotes(name, values, document)]
        if found:
            return sorted(_once(found), key=lambda quote: quote.span or Span(len(document.text), 0))
        seen.update(wanted)
        inputs = dict.fromkeys(one for name in wanted for one in needs.get(name, ()))
        wanted = [name for name in inputs if name not in seen]
    return []


def without_quotes(text: str) -> str:
    """An answer's own words: its lines that quote nothing."""
    return "\n".join(line for line in text.splitlines() if not _LINE.match(line)).strip()


def _quotes(step: str, values: Mapping[str, Value], document: Source) -> Iterable[Quote]:
    if step not in values:
        return
    text = as_text(values[step])
    for found in _LINE.finditer(text):
        yield _located(found[1].strip(), step, document)
    for found in _QUOTED.finditer(without_quotes(text)):
        quote = _located((found[1] or found[2]).strip(), step, document)
        # Words in quotation marks may be anybody's; a line after ">" claims to be the document's.
        if quote.span:
            yield quote


def _located(text: str, step: str, document: Source) -> Quote:
    for candidate in dict.fromkeys((text, text.strip('"“”'), text.strip('"“”. …'))):
        words = candidate.split()
        if not words:
            continue
        found = re.search(r"\s+".join(map(re.escape, words)), document.text)
        if found:
            return Quote(found[0], Span(found.start(), found.end()), step)
    return Quote(text, None, step)


def _once(quotes: Iterable[Quote]) -> list[Quote]:
    first: dict[str, Quote] = {}
    for quote in quotes:
        first.setdefault(quote.text, quote)
    return list(first.values())
