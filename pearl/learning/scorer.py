"""The next hop by analogy with questions that were learned from.

A question of a known kind goes the ways that its kind went. Any other is
compared with each known one: the words that it has instead (``directors`` for
``actors``) say which hops are to be asked in other words (``Who directed {}?``
for ``Who all acted in the movie {}?``), so that parts which were never seen
together, and questions to agents that no decomposition ever had, are proposed.
Agents then say which of them make sense.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from pearl.agents import Hop
from pearl.learning.model import Model, Pattern, Strategy
from pearl.learning.moves import Form, Move, fits, hop_of
from pearl.learning.search import Choice
from pearl.learning.texts import longest_match, opened, strange_entities, words_of
from pearl.values import Value


@dataclass(frozen=True, slots=True)
class Weights:
    """What counts how much, as negative logarithms.

    Args:
        distance: for the words in which two questions differ.
        changed: for a hop that is asked in other words.
        unsaid: for a word of a hop that the question does not have, and the
            known question has.
        added: for another word that a changed hop brings with it.
        uncovered: for a word of the question that no hop took up.
        stranger: for an agent that was never seen to answer this.
    """

    distance: float = 0.5
    changed: float = 0.5
    unsaid: float = 2.0
    added: float = 0.05
    uncovered: float = 4.0
    stranger: float = 6.0


@dataclass(frozen=True, slots=True)
class _Analogy:
    """A known way, for a question.

    Args:
        strategy: what is done.
        entities: the question's.
        more: the question's words that the known one does not have.
        less: the known question's words that this one does not have.
        cost: of the comparison.
    """

    strategy: Strategy
    entities: tuple[str, ...]
    more: tuple[str, ...]
    less: tuple[str, ...]
    cost: float


class ByAnalogy:
    """Proposes hops as a model has them (a `NextStep`)."""

    def __init__(self, model: Model, weights: Weights = Weights()) -> None:  # noqa: B008 - frozen
        self.model, self.weights = model, weights
        self._analogies = lru_cache(maxsize=256)(self._compared)
        self._asked = lru_cache(maxsize=4096)(self._in_words)
        self._by_blanks: dict[int, list[Form]] = {}
        for form in sorted(model.forms, key=lambda form: form.phrasings):
            self._by_blanks.setdefault(form.blanks, []).append(form)

    def choices(
        self, question: str, hops: tuple[Hop, ...], answers: tuple[Value, ...]
    ) -> list[Choice]:
        """Proposals, best first.

        The score of a hop is what it adds to the cost of the best analogy, so
        that scores along a decomposition add up to that of the whole.
        """
        best: dict[Hop | None, float] = {}
        before = math.inf
        for analogy in self._analogies(question):
            forms = self._forms(analogy, hops)
            if forms is None:
                continue
            cost = self._so_far(analogy, forms)
            before = min(before, cost)
            for hop, more in self._next(analogy, forms):
                best[hop] = min(best.get(hop, math.inf), cost + more)
        ordered = sorted(best.items(), key=lambda one: (one[1], str(one[0])))
        return [Choice(before - cost, hop) for hop, cost in ordered]

    # -- which known questions bear on this one ----------------------------------------------------

    def _compared(self, question: str) -> tuple[_Analogy, ...]:
        patterns = {pattern.question: pattern for pattern in self.model.patterns}
        known = longest_match(question, patterns)
        if known is not None:
            return tuple(
                _Analogy(strategy, known[1], (), (), -math.log(share))
                for strategy, share in _shares(patterns[known[0]])
            )
        text, entities = opened(question, strange_entities(question, self._vocabulary))
        words = words_of(text)
        return tuple(
            analogy
            for pattern in self.model.patterns
            for analogy in self._analogous(pattern, words, entities)
        )

    def _analogous(
        self, pattern: Pattern, words: Sequence[str], entities: tuple[str, ...]
    ) -> Iterable[_Analogy]:
        theirs = words_of(pattern.question)
        more = tuple(one for one in dict.fromkeys(words) if not _has(theirs, one))
        less = tuple(one for one in dict.fromkeys(theirs) if not _has(words, one))
        cost = self.weights.distance * sum(map(self._telling, (*more, *less)))
        for strategy, share in _shares(pattern):
            used = [one for move in strategy.moves for one in move.arguments]
            if max((one for one in used if isinstance(one, int)), default=0) <= len(entities):
                yield _Analogy(strategy, entities, more, less, cost - math.log(share))

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        patterns = (word for one in self.model.patterns for word in words_of(one.question))
        forms = (word for form in self.model.forms for one in form.phrasings
                 for word in words_of(one))  # fmt: skip
        return frozenset((*patterns, *forms))

    @cached_property
    def _documents(self) -> Mapping[str, int]:
        """In how many kinds of question a word stands."""
        counted: dict[str, int] = {}
        for pattern in self.model.patterns:
            for word in set(words_of(pattern.question)):
                counted[word] = counted.get(word, 0) + 1
        return counted

    def _telling(self, word: str) -> float:
        """How much a word says: little where most questions have it."""
        return math.log(1 + len(self.model.patterns) / (self._documents.get(word, 0) + 0.5))

    # -- what an analogy proposes -------------------------------------------------------------------

    def _forms(self, analogy: _Analogy, hops: Sequence[Hop]) -> tuple[Form, ...] | None:
        """What the hops so far ask, where they go the analogy's way; None where they do not."""
        if len(hops) > len(analogy.strategy.moves):
            return None
        forms: list[Form] = []
        for number, (hop, move) in enumerate(zip(hops, analogy.strategy.moves, strict=False), 1):
            asked = self._asked(move, analogy.entities, number)
            form = asked.get((hop.operator, hop.question))
            if form is None:
                return None
            forms.append(form)
        return tuple(forms)

    def _in_words(
        self, move: Move, entities: tuple[str, ...], number: int
    ) -> dict[tuple[str, str], Form]:
        """All hops of a move's shape, by operator and question; the move's own wins."""
        found: dict[tuple[str, str], Form] = {}
        for form in (*self._by_blanks.get(move.form.blanks, ()), move.form):
            hop = hop_of(_with(move, form), "", entities, number)
            found[hop.operator, hop.question] = form
        return found

    def _so_far(self, analogy: _Analogy, forms: Sequence[Form]) -> float:
        moves = analogy.strategy.moves
        return analogy.cost + sum(
            self._cost(analogy, move.form, form) for move, form in zip(moves, forms, strict=False)
        )

    def _next(
        self, analogy: _Analogy, forms: tuple[Form, ...]
    ) -> Iterable[tuple[Hop | None, float]]:
        number = len(forms) + 1
        if number > len(analogy.strategy.moves):
            said = [word for form in forms for one in form.phrasings for word in words_of(one)]
            missing = (self._telling(one) for one in analogy.more if not _has(said, one))
            yield None, self.weights.uncovered * sum(missing)
            return
        move = analogy.strategy.moves[number - 1]
        if not fits(move, len(analogy.entities), len(forms)):
            return
        for form in (move.form, *self._changes(analogy, move)):
            cost = self._cost(analogy, move.form, form)
            for agent, more in self._agents(form):
                yield hop_of(_with(move, form), agent, analogy.entities, number), cost + more

    def _changes(self, analogy: _Analogy, move: Move) -> Iterable[Form]:
        """Other questions of as many blanks that take up a word of the question's own."""
        own = _words(move.form)
        for form in self._by_blanks.get(move.form.blanks, ()):
            words = [word for word in _words(form) if word not in own]
            if form != move.form and any(_has(words, one) for one in analogy.more):
                yield form

    def _cost(self, analogy: _Analogy, own: Form, form: Form) -> float:
        """What it costs to ask one form in the place of an analogy's own."""
        weights = self.weights
        unsaid = min(
            sum(self._telling(gone) for gone in analogy.less if _has(words_of(one), gone))
            for one in form.phrasings
        )
        if form == own:
            return weights.unsaid * unsaid
        known = {*_words(own), *analogy.more}
        added = min(sum(not _has(known, word) for word in words_of(one)) for one in form.phrasings)
        return weights.changed + weights.unsaid * unsaid + weights.added * added

    def _agents(self, form: Form) -> Iterable[tuple[str, float]]:
        seen = self.model.forms.get(form, {})
        total = sum(seen.values())
        for agent in self.model.agents:
            if seen.get(agent):
                yield agent, -math.log(seen[agent] / total)
            else:
                yield agent, self.weights.stranger


def _shares(pattern: Pattern) -> list[tuple[Strategy, float]]:
    return [(one, one.seen / pattern.seen) for one in pattern.strategies if one.seen > 0]


def _with(move: Move, form: Form) -> Move:
    return Move(move.mode, move.then, form, move.arguments, move.over)


@lru_cache(maxsize=4096)
def _words(form: Form) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for one in form.phrasings for word in words_of(one)))


def _has(words: Iterable[str], word: str) -> bool:
    return any(_similar(one, word) for one in words)


@lru_cache(maxsize=65536)
def _similar(one: str, other: str) -> bool:
    """Whether two words are forms of one: ``directed`` and ``directors``."""
    if one == other:
        return True
    longest, common = max(len(one), len(other)), 0
    for here, there in zip(one, other, strict=False):
        if here != there:
            break
        common += 1
    return common >= 3 and 2 * common >= longest and min(len(one), len(other)) > 3
