"""Quotes in their places: every one that a run's steps gave, and the document cut at them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pearl.plan import Plan
from pearl.runtime.evidence import Quote, evidence
from pearl.source import Source, Span
from pearl.values import Value
from pearl.viewer.words import lines, shown


@dataclass(frozen=True, slots=True)
class Passage:
    """A quote.

    Args:
        number: counted from 1; the answer's own come first.
        text: the passage, on one line.
        span: where it stands; None where the document does not have it.
        line: of the document, counted from 1; None likewise.
        steps: the steps whose outputs quote it.
        answers: whether the answer rests on it.
    """

    number: int
    text: str
    span: Span | None
    line: int | None
    steps: tuple[str, ...]
    answers: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the document.

    Args:
        text: its characters.
        starts: the numbers of the quotes that begin with it.
        kind: ``final`` where the answer rests on it, ``quoted`` where a step quotes it, else empty.
    """

    text: str
    starts: tuple[int, ...] = ()
    kind: str = ""


def passages(
    plan: Plan, values: Mapping[str, Value], ends: Sequence[str], document: Source | None
) -> list[Passage]:
    """Every quote of a run, those behind its answer first.

    Args:
        plan: the plan that ran.
        values: what its steps came to.
        ends: the steps that make up the answer; none where there is no answer.
        document: what they quote; None where it is not at hand, and then no
            quote has a place.
    """
    text = document or Source("", "")
    final = evidence(plan, values, ends, text)
    alone = Plan()
    every = [(one, True) for one in final]
    for name, value in values.items():
        every += ((one, False) for one in evidence(alone, {name: value}, [name], text))
    found: dict[tuple[str, Span | None], tuple[Quote, bool, list[str]]] = {}
    for quote, answers in every:
        known = found.setdefault((quote.text, quote.span), (quote, answers, []))
        if quote.step not in known[2]:
            known[2].append(quote.step)
    return [
        Passage(
            number,
            shown(" ".join(quote.text.split())),
            quote.span,
            text.position(quote.span.start)[0] if quote.span else None,
            tuple(steps),
            answers,
        )
        for number, (quote, answers, steps) in enumerate(found.values(), 1)
    ]


def cut(document: Source, found: Iterable[Passage]) -> list[Piece]:
    """The document in pieces, cut where quotes begin and end.

    Args:
        document: the text.
        found: its quotes; those without a place are left out.
    """
    placed = [(one, one.span) for one in found if one.span is not None]
    ends = {0, len(document.text)}
    for _, span in placed:
        ends |= {span.start, span.end}
    places = sorted(ends)
    pieces: list[Piece] = []
    for start, end in pairwise(places):
        over = [one for one, span in placed if span.start <= start and end <= span.end]
        starts = tuple(one.number for one, span in placed if span.start == start)
        kind = "final" if any(one.answers for one in over) else "quoted" if over else ""
        pieces.append(Piece(lines(document.text[start:end]), starts, kind))
    return pieces
