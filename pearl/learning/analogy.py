"""Known ways to decompose, laid beside a question of no known kind.

Two questions are compared by their words. A word that the new question has
instead of another (``directors`` for ``actors``) tells which hops change.
Where no known question comes near, the beginning of one way and the end of
another are put together, as their words are found in the question.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from pearl.learning.model import Model, Pattern, Strategy
from pearl.learning.moves import Form, Move
from pearl.learning.texts import longest_match, opened, strange_entities, words_of


@dataclass(frozen=True, slots=True)
class Weights:
    """What counts how much, as negative logarithms.

    Args:
        distance: for a word in which two questions differ.
        spliced: for putting two ways together.
        doubtful: for an entity that has words of known questions in it.
        changed: for a hop that is asked in other words.
        unsaid: for a word of a hop that the known question has and the new one lacks.
        added: for another word that a changed hop brings with it.
        uncovered: for a word of the question that no hop took up.
        reworded: for leaving the ways of a question's kind, where words tell of others.
        stranger: for an agent that was never seen to answer this.
    """

    distance: float = 0.5
    spliced: float = 4.0
    doubtful: float = 3.0
    changed: float = 0.5
    unsaid: float = 2.0
    added: float = 0.05
    uncovered: float = 4.0
    reworded: float = 6.0
    stranger: float = 6.0


@dataclass(frozen=True, slots=True)
class Analogy:
    """A known way, laid beside a question.

    Args:
        moves: what is done.
        entities: the question's.
        more: the question's words that the known one does not have.
        less: the known question's words that this one does not have.
        cost: of the comparison.
    """

    moves: tuple[Move, ...]
    entities: tuple[str, ...]
    more: tuple[str, ...]
    less: tuple[str, ...]
    cost: float


class Known:
    """The kinds of question of a model, to compare others with."""

    SPLICES = 20
    """How many ways that are put together are looked at for one question."""

    def __init__(self, model: Model, weights: Weights) -> None:
        self.model, self.weights = model, weights
        self._ended = lru_cache(maxsize=256)(self._other_ends)

    def analogies(self, question: str) -> list[Analogy]:
        """The ways that bear on a question: those of its kind, or else all that compare."""
        patterns = {pattern.question: pattern for pattern in self.model.patterns}
        match = longest_match(question, patterns)
        found: list[Analogy] = []
        if match is not None:
            doubts = sum(
                word in self._documents for entity in match[1] for word in words_of(entity)
            )
            found = [
                Analogy(one.moves, match[1], (), (), self.weights.doubtful * doubts + cost)
                for one, cost in _costs(patterns[match[0]])
            ]
            if not doubts:
                # In a world where none of its ways is answered, other ends may be.
                others = self._ended(patterns[match[0]])
                return found + [replace(one, entities=match[1]) for one in others]
        if self.model.telltales:
            return found
        text, entities = opened(question, strange_entities(question, self._vocabulary))
        words = words_of(text)
        for pattern in self.model.patterns:
            found += self._beside(pattern, words, entities)
        spliced = sorted(self._spliced(words, entities), key=lambda one: one.cost)
        return found + spliced[: self.SPLICES]

    def telling(self, word: str) -> float:
        """How much a word says: little where most kinds of question have it."""
        return math.log(1 + len(self.model.patterns) / (self._documents.get(word, 0) + 0.5))

    @cached_property
    def _documents(self) -> Mapping[str, int]:
        """In how many kinds of question a word stands."""
        counted: dict[str, int] = {}
        for pattern in self.model.patterns:
            for word in set(words_of(pattern.question)):
                counted[word] = counted.get(word, 0) + 1
        return counted

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        said = (word for form in self.model.forms for word in said_by(form))
        return frozenset((*self._documents, *said))

    def _distance(self, words: Iterable[str]) -> float:
        return self.weights.distance * sum(map(self.telling, words))

    def _beside(
        self, pattern: Pattern, words: Sequence[str], entities: tuple[str, ...]
    ) -> Iterable[Analogy]:
        more, less = _differing(words, words_of(pattern.question))
        for strategy, cost in _costs(pattern):
            if _needs(strategy.moves) <= len(entities):
                total = cost + self._distance((*more, *less))
                yield Analogy(strategy.moves, entities, more, less, total)

    # -- beginnings and ends of known ways, put together -------------------------------------------

    def _other_ends(self, pattern: Pattern) -> tuple[Analogy, ...]:
        """A kind's beginnings with the ends of other kinds, those of the likest first."""
        if self.model.telltales:
            return ()
        best: dict[tuple[Move, ...], float] = {}
        words = words_of(pattern.question)
        heads = {one.moves[:at] for one in pattern.strategies for at in range(1, len(one.moves))}
        for other in self.model.patterns:
            more, less = _differing(words, words_of(other.question))
            for head, one in itertools.product(heads, other.strategies):
                # The ends come in at the same place, and what the beginnings say is no difference.
                moves = (*head, *one.moves[len(head) :])
                if _goes_on(moves[len(head) :]):
                    apart = (*_unsaid(more, head), *_unsaid(less, one.moves[: len(head)]))
                    cost = self.weights.spliced + self._distance(apart)
                    best[moves] = min(cost, best.get(moves, math.inf))
        known = {one.moves for one in pattern.strategies}
        ordered = sorted(
            (cost, str(moves), moves) for moves, cost in best.items()
            if moves not in known and _needs(moves) <= _needs_of(pattern)
        )[: self.SPLICES]  # fmt: skip
        return tuple(Analogy(moves, (), (), (), cost) for cost, _, moves in ordered)

    def _spliced(self, words: Sequence[str], entities: tuple[str, ...]) -> Iterable[Analogy]:
        """New chains of known hops, by how many of the question's words they say."""
        own = tuple(dict.fromkeys(words))
        seen: set[tuple[Move, ...]] = set()
        for head in self._heads:
            for tail in self._tails:
                moves = (*head, *tail)
                if moves in seen or _needs(moves) > len(entities):
                    continue
                seen.add(moves)
                forms = dict.fromkeys(move.form for move in moves)
                theirs = sorted({word for move in moves for word in self.come_with(move)})
                said = [word for form in forms for word in said_by(form)]
                more = tuple(one for one in own if one not in theirs and not has(said, one))
                less = tuple(one for one in theirs if not has(own, one))
                cost = self._distance((*more, *less)) + self.weights.spliced
                yield Analogy(moves, entities, more, less, cost)

    @cached_property
    def _heads(self) -> list[tuple[Move, ...]]:
        ways = (one.moves for pattern in self.model.patterns for one in pattern.strategies)
        return list(dict.fromkeys(way[:at] for way in ways for at in range(1, len(way) + 1)))

    @cached_property
    def _tails(self) -> list[tuple[Move, ...]]:
        """Ends of ways that go on from the last answer alone."""
        ways = (one.moves for pattern in self.model.patterns for one in pattern.strategies)
        ends = (way[at:] for way in ways for at in range(1, len(way)))
        return [(), *dict.fromkeys(end for end in ends if _goes_on(end))]

    def come_with(self, move: Move) -> frozenset[str]:
        """Which words of questions come with a hop, though no hop says them.

        They do where kinds of question that have the one mostly have the other.
        What a form is asked about is part of it: ``Is {} greater than {}?``
        means two things.
        """
        return self._words_of_moves.get((move.form, move.arguments), frozenset())

    @cached_property
    def _words_of_moves(self) -> Mapping[tuple[Form, tuple[int | str, ...]], frozenset[str]]:
        users: dict[tuple[Form, tuple[int | str, ...]], set[str]] = {}
        havers: dict[str, set[str]] = {}
        said: set[str] = set()
        for pattern in self.model.patterns:
            moves = [move for one in pattern.strategies for move in one.moves]
            for move in moves:
                users.setdefault((move.form, move.arguments), set()).add(pattern.question)
            for word in words_of(pattern.question):
                havers.setdefault(word, set()).add(pattern.question)
                if any(has(said_by(move.form), word) for move in moves):
                    said.add(word)
        return {
            key: frozenset(
                word for word, those in havers.items()
                if 3 * len(those & used) >= 2 * len(those | used)
                and (word not in said or has(said_by(key[0]), word))
            )
            for key, used in users.items()
        }  # fmt: skip


def _costs(pattern: Pattern) -> list[tuple[Strategy, float]]:
    return [(one, -math.log(one.seen / pattern.seen)) for one in pattern.strategies if one.seen > 0]


def _differing(
    words: Sequence[str], others: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words that the one text has and the other has not, and the other way round."""
    more = tuple(one for one in dict.fromkeys(words) if not has(others, one))
    return more, tuple(one for one in dict.fromkeys(others) if not has(words, one))


def _unsaid(words: Iterable[str], moves: Iterable[Move]) -> list[str]:
    said = [word for move in moves for word in said_by(move.form)]
    return [one for one in words if not has(said, one)]


def _needs_of(pattern: Pattern) -> int:
    return max(_needs(one.moves) for one in pattern.strategies)


def _needs(moves: Iterable[Move]) -> int:
    """How many entities a question has to have."""
    used = (one for move in moves for one in move.arguments)
    return max((one for one in used if isinstance(one, int)), default=0)


def _goes_on(moves: Sequence[Move]) -> bool:
    """Whether moves use, of what came before them, the last answer alone."""
    back = [
        (at, one)
        for at, move in enumerate(moves)
        for one in (*move.arguments, move.over)
        if isinstance(one, int) and one < 0
    ]
    return all(at + one >= -1 for at, one in back) and any(at + one == -1 for at, one in back)


@lru_cache(maxsize=8192)
def said_by(form: Form) -> tuple[str, ...]:
    """The words of all phrasings of a form."""
    return tuple(dict.fromkeys(word for one in form.phrasings for word in words_of(one)))


def has(words: Iterable[str], word: str) -> bool:
    """Whether one of the words is a form of a word."""
    return any(similar(one, word) for one in words)


@lru_cache(maxsize=65536)
def similar(one: str, other: str) -> bool:
    """Whether two words are forms of one, by how they begin: ``directed`` and ``directors``."""
    if one == other:
        return True
    common = 0
    for here, there in zip(one, other, strict=False):
        if here != there:
            break
        common += 1
    return common >= 3 and 2 * common >= max(len(one), len(other)) and min(len(one), len(other)) > 3
