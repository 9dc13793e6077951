"""Of the programs that give each question's answer, those that are meant.

An answer has many explanations, most of them wrong, and some are right wherever they were tried
and say something else: whose heaviest marrow weighs over 40 is whose any marrow does. One is
chosen for each question so that all together are described in the fewest words (minimum description
length, Rissanen 1978): each piece that programs have, a hop as it is asked, is named once, and
which of these pieces a question has is told given the question's words. A piece that is of no use
elsewhere costs, and one that no words foretell does. No answer but those of training is looked at.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pearl.commaqa.model import Move, words_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RIDGE, _RIDGE_OF_BIAS = 0.3, 0.01
_TURNS = 8  # of choosing by words and learning the words of what was chosen
_NEVER = -8.0  # the logarithm of the odds of a piece that no chosen program has

Moves: TypeAlias = tuple[Move, ...]
Way: TypeAlias = tuple[str, Moves]
"""A kind of question, as its text with holes, and the moves that one such question took."""

_Array: TypeAlias = "NDArray[Any]"


def chosen_programs(explained: Sequence[tuple[str, Sequence[Moves]]]) -> list[Way]:
    """For each question, one of the programs that give its answer: the shortest description of all.

    From the programs with the fewest pieces, and from those that the words foretell where nothing
    is chosen, each question takes in turns what its words speak for most, given what the others
    took. A piece is then given up wherever that can be, or taken wherever it can be, one at a
    time, as long as that makes the description shorter. First pieces are what is asked; from the
    shorter of the two ends it goes on with how that is asked.

    Args:
        explained: texts with holes, and the programs that may be meant; at least one each.
    """
    if not explained:
        return []
    coarse, fine = _Problem(explained, _asked), _Problem(explained, _asked_how)
    ends = (coarse.shortened(start) for start in coarse.starts())
    best = fine.shortened(min(ends, key=lambda end: end.length).chosen)
    chosen = zip(explained, best.chosen, strict=True)
    return [(pattern, ways[int(at)]) for (pattern, ways), at in chosen]


def _asked(move: Move) -> Hashable:
    """What a hop asks: of an entity, of the last answer, or of another."""
    of = tuple(
        one if isinstance(one, str) else "{}" if one > 0 else "#1" if one == -1 else "#"
        for one in move.arguments
    )
    return move.form, of


def _asked_how(move: Move) -> Hashable:
    """What a hop asks, of which items, and what becomes of the answers."""
    return _asked(move), move.mode, move.then


def _pieces(moves: Moves, piece: Callable[[Move], Hashable]) -> Iterator[tuple[Hashable, int]]:
    """The pieces of a program; where it has one twice, that is another."""
    seen: Counter[Hashable] = Counter()
    for move in moves:
        seen[piece(move)] += 1
        yield piece(move), seen[piece(move)]


@dataclass(frozen=True, eq=False, slots=True)
class _Solution:
    """A program for each question.

    Args:
        length: of the description, in nats.
        chosen: the number of each question's program among its own.
        scores: how much each question's words speak for each of all programs, as a logarithm.
        uses: in how many questions each piece is.
    """

    length: float
    chosen: _Array
    scores: _Array
    uses: _Array


class _Problem:
    """Programs and words as arrays: rows are questions' texts, or all programs of all questions."""

    def __init__(
        self,
        explained: Sequence[tuple[str, Sequence[Moves]]],
        piece: Callable[[Move], Hashable],
    ) -> None:
        import numpy as np

        self._np = np
        texts = sorted({text for text, _ in explained})
        of_text = {text: at for at, text in enumerate(texts)}
        words = [frozenset(words_of(text)) for text in texts]
        counted = Counter(word for own in words for word in own)
        repeated = sorted(word for word, times in counted.items() if times > 1)
        # Texts × words and a bias (last), and how many questions have each text.
        self._inputs = np.array([[*(word in own for word in repeated), 1] for own in words], float)
        self._times = np.bincount([of_text[text] for text, _ in explained]).astype(float)
        self._ridge = np.array([*(_RIDGE for _ in repeated), _RIDGE_OF_BIAS])
        # Programs × pieces, whose question each is, and where each question's begin.
        programs = [[*_pieces(moves, piece)] for _, ways in explained for moves in ways]
        pieces = sorted({one for own in programs for one in own}, key=str)
        place = {one: at for at, one in enumerate(pieces)}
        self._pieces = np.zeros((len(programs), len(pieces)))
        for row, own in enumerate(programs):
            self._pieces[row, [place[one] for one in own]] = 1
        many = [len(ways) for _, ways in explained]
        self._question = np.repeat(np.arange(len(many)), many)
        self._first = np.cumsum([0, *many[:-1]])
        self._text = np.repeat([of_text[text] for text, _ in explained], many)
        self._naming = math.log(max(2, len(pieces)))
        self._fitted: dict[bytes, tuple[_Array, float]] = {}

    def starts(self) -> Iterator[_Array]:
        """Programs to begin with."""
        np = self._np
        yield self._best(-self._pieces.sum(1))
        alike = 1 / np.bincount(self._question)[self._question]
        yield self._best(self._scored(alike)[1])

    def shortened(self, chosen: _Array) -> _Solution:
        """The solution that nothing makes shorter, from a start."""
        now, before = self._in_turns(chosen), math.inf
        while now.length < before:
            before = now.length
            rare = [int(piece) for piece in self._np.argsort(now.uses, kind="stable")]
            for given_up, piece in (
                *((True, one) for one in rare),
                *((False, one) for one in rare),
            ):
                other = self._changed(now, piece, given_up=given_up)
                if other is not None and other.length < now.length - 1e-3:
                    now = other
        return now

    def _changed(self, now: _Solution, piece: int, *, given_up: bool) -> _Solution | None:
        """A piece given up, or taken, wherever a question can; None where none can."""
        np = self._np
        usable = (self._pieces[:, piece] > 0) != given_up
        can = np.logical_or.reduceat(usable, self._first) & ~usable[self._first + now.chosen]
        if not can.any():
            return None
        others = self._best(np.where(usable, now.scores, -math.inf))
        return self._in_turns(np.where(can, others, now.chosen))

    def _in_turns(self, chosen: _Array) -> _Solution:
        """What each question's words speak for, as long as that makes the description shorter."""
        now = self._solution(chosen)
        for _ in range(_TURNS):
            chosen = self._best(now.scores)
            if (chosen == now.chosen).all():
                break
            other = self._solution(chosen)
            if other.length >= now.length:
                break
            now = other
        return now

    def _best(self, scores: _Array) -> _Array:
        """The number of each question's best program, the first of equals."""
        most = self._np.maximum.reduceat(scores, self._first)[self._question]
        rows = self._np.flatnonzero(scores >= most - 1e-9)
        _, first = self._np.unique(self._question[rows], return_index=True)
        best: _Array = rows[first] - self._first
        return best

    def _solution(self, chosen: _Array) -> _Solution:
        rows = self._np.zeros(len(self._question))
        rows[self._first + chosen] = 1
        length, scores, uses = self._scored(rows)
        return _Solution(length, chosen, scores, uses)

    def _scored(self, shares: _Array) -> tuple[float, _Array, _Array]:
        """The length of a description, scores of all programs, and how often pieces are used.

        Args:
            shares: how much each program is the one of its question; 1 in all for each.
        """
        np = self._np
        targets = np.zeros((len(self._times), self._pieces.shape[1]))
        rows = np.flatnonzero(shares)
        np.add.at(targets, self._text[rows], self._pieces[rows] * shares[rows, None])
        uses = targets.sum(0)
        odds, length = np.full(targets.shape, _NEVER), 0.0
        for piece in np.flatnonzero(uses):
            odds[:, piece], more = self._fit(np.ascontiguousarray(targets[:, piece]))
            length += more + self._naming
        return length, (self._pieces * odds[self._text]).sum(1), uses

    def _fit(self, targets: _Array) -> tuple[_Array, float]:
        """A ridge-penalised logistic model of one piece given words, by Newton's method.

        Args:
            targets: in how many questions of each text the piece is.

        Returns:
            The logarithms of its odds for each text, and what it costs to tell the targets.
        """
        key = targets.tobytes()
        if key in self._fitted:
            return self._fitted[key]
        np, inputs, times = self._np, self._inputs, self._times

        def loss(weights: _Array) -> float:
            sums = inputs @ weights
            told = times * np.logaddexp(0, sums) - targets * sums
            return float(told.sum() + 0.5 * (self._ridge * weights**2).sum())

        weights = np.zeros(inputs.shape[1])
        weights[-1] = math.log((targets.sum() + 0.5) / (times.sum() - targets.sum() + 0.5))
        now, step = loss(weights), math.inf
        while step > 1e-3:
            chances = 1 / (1 + np.exp(-inputs @ weights))
            slope = inputs.T @ (times * chances - targets) + self._ridge * weights
            spread = (times * chances * (1 - chances))[:, None]
            curve = (inputs * spread).T @ inputs + np.diag(self._ridge)
            way, size = np.linalg.solve(curve, slope), 1.0
            while size > 1e-3 and loss(weights - size * way) > now:
                size /= 2
            weights = weights - size * way
            step, now = now - loss(weights), loss(weights)
        self._fitted[key] = inputs @ weights, now
        return self._fitted[key]
