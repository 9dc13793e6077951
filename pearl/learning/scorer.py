"""The next hop by analogy with questions that were learned from.

A question of a known kind goes the ways that its kind went. Any other is laid
beside the known ones (`pearl.learning.analogy`): the words that it has instead
of theirs say which hops are to be asked in other words (``Who directed {}?``
for ``Who all acted in the movie {}?``), so that parts which were never seen
together, and questions to agents that no decomposition ever had, are proposed.
Agents then say which of them make sense.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from pearl.agents import Hop
from pearl.learning.analogy import Analogy, Known, Weights, has, said_by
from pearl.learning.model import Model
from pearl.learning.moves import Form, Move, fits, hop_of
from pearl.learning.search import Choice
from pearl.learning.texts import words_of
from pearl.learning.wording import ByWording
from pearl.values import Value


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


class ByAnalogy:
    """Proposes hops as a model has them (a `NextStep`)."""

    def __init__(self, model: Model, weights: Weights = Weights()) -> None:  # noqa: B008 - frozen
        self.model, self.weights = model, weights
        self._known = Known(model, weights)
        self._wording = ByWording(model, weights.stranger)
        self._lined = lru_cache(maxsize=256)(self._lined_up)
        self._asked = lru_cache(maxsize=8192)(self._in_words)
        self._by_blanks: dict[int, list[Form]] = {}
        for form in sorted(model.forms, key=lambda form: form.phrasings):
            self._by_blanks.setdefault(form.blanks, []).append(form)

    def choices(
        self, question: str, hops: tuple[Hop, ...], answers: tuple[Value, ...]
    ) -> list[Choice]:
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
        return [Choice(score, hop) for hop, score in ordered]

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


def _whole(scorer: ByAnalogy, lined: _Lined, asked: Sequence[_Option]) -> float:
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
