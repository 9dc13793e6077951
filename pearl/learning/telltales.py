"""Which words of a question tell of which hops, fitted to many kinds of question.

Each hop that was learned has a logistic model of its own: given the words and
short phrases of a question, how likely is it that the hop is part of its
decomposition? A question with several entities is taken apart at them, so that
what is said of the one is no evidence for what is asked of the other. Nothing
is fitted to pairs of hops, so that hops that were never seen together are as
likely as their words say.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pearl.learning.moves import Move

if TYPE_CHECKING:
    from pearl.learning.model import Pattern

ENOUGH = 30
"""Fewer kinds of question do not tell apart which of their words mean what."""

_TOKEN = re.compile(r"\{[1-9][0-9]?\}|\w+")
_HOLE = "{}"
_LONGEST = 3
_STRENGTH = 0.02
"""How strongly large weights are held down."""

OWN, ALL = "own", "all"
"""What a hop rests on: one entity, by its part of the question, or on more or none, by all of it.

A question with at most one entity has its whole text for its one part.
"""


@dataclass(frozen=True, slots=True)
class Telltale:
    """What tells of one hop.

    Args:
        move: the hop; the entity that it rests on is its first.
        scope: `OWN` or `ALL`.
        bias: of the logistic model, with no phrase.
        phrases: a phrase, and what it adds.
    """

    move: Move
    scope: str
    bias: float
    phrases: Mapping[str, float]

    def likely(self, phrases: Iterable[str]) -> float:
        """How likely the hop is, given a text's phrases."""
        total = self.bias + sum(self.phrases.get(one, 0.0) for one in phrases)
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))


def phrases_of(text: str) -> frozenset[str]:
    """A text's words and runs of up to three words; holes are all alike."""
    tokens = ["^", *(_token(one) for one in _TOKEN.findall(text)), "$"]
    return frozenset(
        " ".join(tokens[at : at + length])
        for length in range(1, _LONGEST + 1)
        for at in range(len(tokens) - length + 1)
    )


def _token(word: str) -> str:
    return _HOLE if word.startswith("{") else word.casefold()


def parts_of(pattern: str, entities: int) -> tuple[str, ...]:
    """A question's text for each of its entities: from the one before up to itself.

    What follows the last entity is part of the last; with one entity or none
    there is one part.
    """
    if entities < 2:
        return (pattern,)
    holes = [f"{{{number}}}" for number in range(1, entities)]
    ends = [pattern.index(hole) + len(hole) for hole in holes]
    starts = [0, *ends]
    return tuple(pattern[start:end] for start, end in zip(starts, [*ends, None], strict=True))


def rests_on(move: Move, number: int, earlier: Sequence[frozenset[int]]) -> frozenset[int]:
    """The entities that a hop rests on, itself or through earlier hops."""
    found: set[int] = set()
    for one in (*move.arguments, move.over):
        if isinstance(one, int):
            found |= {one} if one > 0 else earlier[number - 1 + one]
    return frozenset(found)


def placed(move: Move, rests: frozenset[int], entities: int) -> tuple[Move, str, int]:
    """A hop as telltales know it, its scope, and which part of the question tells of it."""
    if entities < 2:
        return move, OWN, 0
    if len(rests) != 1:
        return move, ALL, 0
    (own,) = rests
    arguments = tuple(1 if one == own else one for one in move.arguments)
    return replace(move, arguments=arguments), OWN, own - 1


def fit_telltales(patterns: Sequence[Pattern]) -> tuple[Telltale, ...]:
    """Telltales of all hops; none where there are fewer than `ENOUGH` kinds of question."""
    if len(patterns) < ENOUGH:
        return ()
    examples: dict[str, list[tuple[frozenset[str], frozenset[Move]]]] = {OWN: [], ALL: []}
    for pattern in patterns:
        for strategy in pattern.strategies:
            for scope, text, moves in _examples(pattern.question, strategy.moves):
                examples[scope].append((phrases_of(text), moves))
    return tuple(one for scope in (OWN, ALL) for one in _fitted(scope, examples[scope]))


def _examples(question: str, moves: Sequence[Move]) -> Iterator[tuple[str, str, frozenset[Move]]]:
    """Texts, and the hops that they tell of."""
    entities = len(re.findall(r"\{[1-9][0-9]?\}", question))
    parts = parts_of(question, entities)
    told: dict[tuple[str, int], set[Move]] = {(OWN, at): set() for at in range(len(parts))}
    if entities > 1:
        told[ALL, 0] = set()
    earlier: list[frozenset[int]] = []
    for number, move in enumerate(moves, 1):
        earlier.append(rests_on(move, number, earlier))
        known, scope, at = placed(move, earlier[-1], entities)
        told[scope, at].add(known)
    for (scope, at), found in told.items():
        yield scope, question if scope == ALL else parts[at], frozenset(found)


def _fitted(
    scope: str, examples: Sequence[tuple[frozenset[str], frozenset[Move]]]
) -> Iterator[Telltale]:
    """One logistic model for each hop, by ridge-penalised likelihood."""
    moves = sorted({move for _, found in examples for move in found}, key=str)
    counted = Counter(phrase for phrases, _ in examples for phrase in phrases)
    known = sorted(phrase for phrase, times in counted.items() if times > 1)
    if not moves:
        return
    weights = _regressed(
        [[phrase in phrases for phrase in known] for phrases, _ in examples],
        [[move in found for move in moves] for _, found in examples],
    )
    for at, move in enumerate(moves):
        column = [round(float(one), 2) for one in weights[:, at]]
        told = {phrase: one for phrase, one in zip(known, column, strict=False) if abs(one) >= 0.05}
        yield Telltale(move, scope, column[-1], told)


def _regressed(has: Sequence[Sequence[bool]], used: Sequence[Sequence[bool]]) -> Any:  # noqa: ANN401 - numpy's
    """Weights of logistic regressions: phrases and a bias (last) by hops."""
    import numpy as np
    from scipy.optimize import minimize

    inputs = np.hstack([np.array(has, float), np.ones((len(has), 1))])
    wanted = np.array(used, float)
    shape = (inputs.shape[1], wanted.shape[1])
    held = np.full(shape, _STRENGTH)
    held[-1] = 0.001

    def loss(flat: Any) -> tuple[float, Any]:  # noqa: ANN401 - numpy's
        weights = flat.reshape(shape)
        sums = inputs @ weights
        value = np.logaddexp(0, sums).sum() - (wanted * sums).sum()
        chances = 1 / (1 + np.exp(-np.clip(sums, -500, 500)))
        slope = inputs.T @ (chances - wanted) + held * weights
        return float(value + 0.5 * (held * weights**2).sum()), slope.ravel()

    start = np.zeros(shape[0] * shape[1])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 200})
    return found.x.reshape(shape)
