"""Known ways to decompose, laid beside a question of no known kind.

Two questions are compared by their words. A word that the new question has
instead of another (``directors`` for ``actors``) tells which hops change.
Where no known question comes near, the beginning of one way and the end of
another are put together, as their words are found in the question.

The next hop by analogy with questions that were learned from.

A question of a known kind goes the ways that its kind went. Any other is laid
beside the known ones (`pearl.learning.analogy`): the words that it has instead
of theirs say which hops are to be asked in other words (``Who directed {}?``
for ``Who all acted in the movie {}?``), so that parts which were never seen
together, and questions to agents that no decomposition ever had, are proposed.
Agents then say which of them make sense.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

from pearl.commaqa.decomposition import Hop
from pearl.commaqa.logistic import LogisticScorer
from pearl.commaqa.model import (
    Form,
    Model,
    Move,
    Pattern,
    Strategy,
    fits,
    hop_of,
    longest_match,
    opened,
    strange_entities,
    words_of,
)
from pearl.commaqa.search import Candidate
from pearl.lang.values import Value


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


class _Option(NamedTuple):
    """One way to ask a hop of an analogy.

    Args:
        form: what is asked.
        cost: of asking it here.
        takes: the question's own words that it takes up.
    """

    form: Form
    cost: float
    takes: frozenset[str]


class _Lined(NamedTuple):
    """An analogy with what may be asked at each hop."""

    analogy: Analogy
    options: tuple[tuple[_Option, ...], ...]


class AnalogyScorer:
    """Proposes hops as a model has them (a `Scorer`)."""

    def __init__(self, model: Model, weights: Weights = Weights()) -> None:
        self.model, self.weights = model, weights
        self._known = Known(model, weights)
        self._wording = LogisticScorer(model, weights.stranger)
        self._lined = lru_cache(maxsize=256)(self._lined_up)
        self._asked = lru_cache(maxsize=8192)(self._in_words)
        self._by_blanks: dict[int, list[Form]] = {}
        for form in sorted(model.forms, key=lambda form: form.phrasings):
            self._by_blanks.setdefault(form.blanks, []).append(form)

    def choices(
        self, question: str, hops: tuple[Hop, ...], answers: tuple[Value, ...]
    ) -> list[Candidate]:
        """Proposals, best first.

        A proposal's score is what it adds to the least that the whole
        decomposition can cost, so that scores add up to the whole's.
        """
        best: dict[Hop | None, float] = {}
        before = math.inf
        for lined in self._lined(question):
            asked = self._so_far(lined, hops)
            if asked is None:
                continue
            before = min(before, _whole(self, lined, asked))
            for hop, cost in self._next(lined, asked):
                best[hop] = min(best.get(hop, math.inf), cost)
        # What was proposed first starts from nothing, so that questions compare.
        start = before if hops else 0.0
        found = {hop: start - cost for hop, cost in best.items()}
        for choice in self._wording.choices(question, hops, answers):
            score = choice.score - (self.weights.reworded if best else 0.0)
            found[choice.hop] = max(score, found.get(choice.hop, -math.inf))
        ordered = sorted(found.items(), key=lambda one: (-one[1], str(one[0])))
        return [Candidate(score, hop) for hop, score in ordered]

    def _lined_up(self, question: str) -> tuple[_Lined, ...]:
        return tuple(
            _Lined(one, tuple(tuple(self._options(one, move)) for move in one.moves))
            for one in self._known.analogies(question)
        )

    def _options(self, analogy: Analogy, move: Move) -> Iterable[_Option]:
        """The move's own question, and others that take up words of the question at hand."""
        own = move.form
        yield self._option(analogy, move, own)
        if not analogy.more:
            return
        for form in self._by_blanks.get(own.blanks, ()):
            fresh = [word for word in said_by(form) if word not in said_by(own)]
            if form != own and any(has(fresh, one) for one in analogy.more):
                yield self._option(analogy, move, form)

    def _option(self, analogy: Analogy, move: Move, form: Form) -> _Option:
        own = move.form
        weights, telling = self.weights, self._known.telling
        unsaid = min(
            sum(telling(gone) for gone in analogy.less if has(words_of(one), gone))
            for one in form.phrasings
        )
        cost = weights.unsaid * unsaid
        if form != own:
            known = {*said_by(own), *analogy.more}
            added = min(sum(not has(known, w) for w in words_of(one)) for one in form.phrasings)
            cost += weights.changed + weights.added * added
        come = self._known.come_with(_with(move, form))
        takes = frozenset(one for one in analogy.more if one in come or has(said_by(form), one))
        return _Option(form, cost, takes)

    def _so_far(self, lined: _Lined, hops: Sequence[Hop]) -> tuple[_Option, ...] | None:
        """What the hops ask, where they go the analogy's way; None where they do not."""
        moves, entities = lined.analogy.moves, lined.analogy.entities
        if len(hops) > len(moves):
            return None
        found: list[_Option] = []
        for number, (hop, move) in enumerate(zip(hops, moves, strict=False), 1):
            form = self._asked(move, entities, number).get((hop.operator, hop.question))
            option = next((one for one in lined.options[number - 1] if one.form == form), None)
            if option is None:
                return None
            found.append(option)
        return tuple(found)

    def _in_words(
        self, move: Move, entities: tuple[str, ...], number: int
    ) -> dict[tuple[str, str], Form]:
        """All hops of a move's shape, by operator and question; the move's own wins."""
        found: dict[tuple[str, str], Form] = {}
        for form in (*self._by_blanks.get(move.form.blanks, ()), move.form):
            hop = hop_of(_with(move, form), "", entities, number)
            found[hop.operator, hop.question] = form
        return found

    def _next(
        self, lined: _Lined, asked: tuple[_Option, ...]
    ) -> Iterable[tuple[Hop | None, float]]:
        analogy, number = lined.analogy, len(asked) + 1
        if number > len(analogy.moves):
            yield None, _whole(self, lined, asked)
            return
        move = analogy.moves[number - 1]
        if not fits(move, len(analogy.entities), len(asked)):
            return
        for option in lined.options[number - 1]:
            cost = _whole(self, lined, (*asked, option))
            for agent, more in self._agents(option.form):
                hop = hop_of(_with(move, option.form), agent, analogy.entities, number)
                yield hop, cost + more

    def uncovered(self, words: Iterable[str]) -> float:
        """What it costs that no hop takes up some words of the question."""
        return self.weights.uncovered * sum(map(self._known.telling, words))

    def _agents(self, form: Form) -> Iterable[tuple[str, float]]:
        seen = self.model.forms.get(form, {})
        total = sum(seen.values())
        for agent in self.model.agents:
            if seen.get(agent):
                yield agent, -math.log(seen[agent] / total)
            else:
                yield agent, self.weights.stranger


def _whole(scorer: AnalogyScorer, lined: _Lined, asked: Sequence[_Option]) -> float:
    """The least that a decomposition costs that begins with what was asked.

    What is to come is taken at its best, each hop for itself, and a word that
    some hop may still take up is not missed yet.
    """
    rest = lined.options[len(asked) :]
    taken = frozenset().union(*(one.takes for one in asked))
    possible = frozenset().union(*(one.takes for options in rest for one in options))
    missing = [one for one in lined.analogy.more if one not in taken and one not in possible]
    to_come = sum(min(one.cost for one in options) for options in rest)
    return lined.analogy.cost + sum(one.cost for one in asked) + to_come + scorer.uncovered(missing)


def _with(move: Move, form: Form) -> Move:
    return Move(move.mode, move.then, form, move.arguments, move.over)
