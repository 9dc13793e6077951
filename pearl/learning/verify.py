"""Whether programs hold for questions that they were not found on."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pearl.agents import exact_match
from pearl.learning.moves import Move
from pearl.learning.programs import Case, Term, hops_of
from pearl.values import Value


@dataclass(frozen=True, slots=True)
class Way:
    """A program for questions of a kind.

    Args:
        moves: its hops.
        right: how many of the questions it explains.
        wrong: how many it answers otherwise than recorded.
    """

    moves: tuple[Move, ...]
    right: int
    wrong: int


def matches(term: Term, sample: Sequence[Case]) -> bool:
    """Whether a program has recorded answers wherever it has one, and somewhere it has."""
    pairs = [
        (value, case.answer)
        for value, case in zip(term.values, sample, strict=False)
        if value is not None
    ]
    return bool(pairs) and all(_equal(value, answer) for value, answer in pairs)


def _equal(value: Value, answer: Value) -> bool:
    if isinstance(answer, list) and isinstance(value, list) and len(answer) != len(value):
        return False
    return exact_match(value, answer)


def verified(
    moves: tuple[Move, ...], left: Sequence[Case], support: int, errors: float
) -> Iterator[Way]:
    """A program and its variants, those that hold for questions.

    Args:
        moves: the program.
        left: the questions.
        support: how many it has to explain, or all where there are fewer.
        errors: the share of its answers that may be wrong.
    """
    for variant in _variants(moves):
        few = counted(variant, left[:: max(1, len(left) // 12)])
        if few.wrong > max(2, errors * (few.right + few.wrong)):
            continue
        way = counted(variant, left)
        right = min(support, len(left))
        if way.right >= right and way.wrong <= errors * (way.right + way.wrong):
            yield way


_SWAPPED = {("values", "flat"): ("values", "flat", "unique"),
            ("values", "flat", "unique"): ("values", "flat")}  # fmt: skip


def _variants(moves: tuple[Move, ...]) -> Iterator[tuple[Move, ...]]:
    """A program, and the same with doubles kept where it drops them, or dropped."""
    either = [
        (move, replace(move, then=_SWAPPED[move.then])) if move.then in _SWAPPED else (move,)
        for move in moves
    ]
    return itertools.islice(itertools.product(*either), 16)


def counted(moves: tuple[Move, ...], cases: Sequence[Case]) -> Way:
    """A program, with how many questions it answers as recorded, and how many otherwise."""
    right = wrong = 0
    for case in cases:
        found = hops_of(moves, case)
        if found is None:
            continue
        agrees = _equal(found[1], case.answer)
        right += agrees
        wrong += not agrees
    return Way(moves, right, wrong)


def is_right(moves: tuple[Move, ...], case: Case) -> bool:
    """Whether a program gives a question's recorded answer."""
    found = hops_of(moves, case)
    return found is not None and _equal(found[1], case.answer)
