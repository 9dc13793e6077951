"""The next hop by the words that tell of it, and by what tends to follow what.

For questions that no single known question is like: each hop is as likely as
the question's words say (`pearl.learning.telltales`), what is asked twice or
not at all is paid for at the end, and how one operator follows another is taken
from the decompositions that were learned. Whether a hop fits what came before
it is left to the agents, who do not answer what makes no sense.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from pearl.commaqa.decomposition import Hop
from pearl.commaqa.model import (
    ALL,
    OWN,
    HopClassifier,
    Model,
    Move,
    features_of,
    fits,
    hop_of,
    opened,
    parts_of,
    placed,
    rests_on,
    strange_entities,
    words_of,
)
from pearl.commaqa.search import Candidate
from pearl.lang.values import Value

_SPARE = 1e-4
"""The chance of a hop after one that it never followed."""

Place = tuple[Move, str, int]
"""A hop as telltales know it, its scope, and its part of the question."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question taken apart.

    Args:
        entities: what it names.
        chances: how likely each hop is, in each place.
    """

    entities: tuple[str, ...]
    chances: dict[Place, float]


@dataclass(frozen=True, slots=True)
class _Path:
    """The hops so far, as moves, the entities that each rests on, and their places."""

    moves: tuple[Move, ...] = ()
    rests: tuple[frozenset[int], ...] = ()
    places: tuple[Place, ...] = ()

    def after(self, move: Move, entities: int) -> _Path:
        rests = rests_on(move, len(self.moves) + 1, self.rests)
        place = placed(move, rests, entities)
        return _Path((*self.moves, move), (*self.rests, rests), (*self.places, place))


class LogisticScorer:
    """Proposes hops by the words that tell of them (a `Scorer`)."""

    def __init__(self, model: Model, stranger: float) -> None:
        self.model, self.stranger = model, stranger
        self._taken = lru_cache(maxsize=256)(self._taken_apart)

    def choices(
        self, question: str, hops: tuple[Hop, ...], answers: tuple[Value, ...]
    ) -> list[Candidate]:
        """Proposals, best first; a score is a logarithm of a chance."""
        if not self.model.telltales:
            return []
        asked = self._taken(question)
        path = self._path(asked, hops)
        if path is None:
            return []
        found = {
            hop: cost + more
            for move, cost in self._moves(asked, path)
            for hop, more in self._hops(move, asked, len(hops) + 1)
        }
        choices = [Candidate(-cost, hop) for hop, cost in found.items()]
        if hops:
            choices.append(Candidate(-self._end(asked, path), None))
        return sorted(choices, key=lambda one: (-one.score, str(one.hop)))

    def _taken_apart(self, question: str) -> _Asked:
        pattern, entities = opened(question, strange_entities(question, self._vocabulary))
        chances: dict[Place, float] = {}
        parts = [features_of(one) for one in parts_of(pattern, len(entities))]
        whole = features_of(pattern)
        for telltale in self.model.telltales:
            if telltale.scope == ALL:
                chances[telltale.move, ALL, 0] = telltale.likely(whole)
            else:
                for at, phrases in enumerate(parts):
                    chances[telltale.move, OWN, at] = telltale.likely(phrases)
        if len(entities) < 2:
            chances = {place: chance for place, chance in chances.items() if place[1] == OWN}
        return _Asked(entities, chances)

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        patterns = (word for one in self.model.patterns for word in words_of(one.question))
        forms = (word for form in self.model.forms for one in form.phrasings
                 for word in words_of(one))  # fmt: skip
        return frozenset((*patterns, *forms))

    def _moves(self, asked: _Asked, path: _Path) -> Iterator[tuple[Move, float]]:
        for move in self._known(len(asked.entities)):
            if not fits(move, len(asked.entities), len(path.moves)):
                continue
            longer = path.after(move, len(asked.entities))
            chance = asked.chances.get(longer.places[-1])
            if chance is None or longer.places[-1] in path.places:
                continue
            cost = _excess(chance) - math.log(self._follows(path.moves, move))
            yield move, cost

    def _known(self, entities: int) -> tuple[Move, ...]:
        """The moves of all telltales, for each entity that they may be asked of."""
        found: dict[Move, None] = {}
        for telltale in self.model.telltales:
            found.update(dict.fromkeys(_instances(telltale, entities)))
        return tuple(found)

    def _hops(self, move: Move, asked: _Asked, number: int) -> Iterator[tuple[Hop, float]]:
        seen = self.model.forms.get(move.form, {})
        total = sum(seen.values())
        for agent in self.model.agents:
            more = -math.log(seen[agent] / total) if seen.get(agent) else self.stranger
            yield hop_of(move, agent, asked.entities, number), more

    def _path(self, asked: _Asked, hops: Sequence[Hop]) -> _Path | None:
        """What the hops are as moves; None where one is none that is known."""
        path = _Path()
        for number, hop in enumerate(hops, 1):
            move = next(
                (
                    one
                    for one in self._known(len(asked.entities))
                    if fits(one, len(asked.entities), number - 1)
                    and hop_of(one, hop.agent, asked.entities, number) == hop
                ),
                None,
            )
            if move is None:
                return None
            path = path.after(move, len(asked.entities))
        return path

    def _end(self, asked: _Asked, path: _Path) -> float:
        """What it costs to end here: hops that the words tell of, and that were not asked."""
        missed = (
            _excess(1 - chance) for place, chance in asked.chances.items()
            if place not in path.places
        )  # fmt: skip
        return sum(missed) - math.log(self._follows(path.moves, None))

    # What follows what.

    def _follows(self, moves: Sequence[Move], move: Move | None) -> float:
        """How often a shape, or an end, follows the two shapes before it."""
        before = ["", "", *(_shape(one) for one in moves)]
        shapes = (before[-2], before[-1])
        new = _shape(move) if move is not None else "end"
        long, short = self._followed
        of_long, of_short = long.get(shapes, Counter()), short.get(shapes[-1], Counter())
        chance = 0.8 * _share(of_long, new) + 0.2 * _share(of_short, new)
        return max(chance, _SPARE)

    @cached_property
    def _followed(self) -> tuple[dict[tuple[str, str], Counter[str]], dict[str, Counter[str]]]:
        long: dict[tuple[str, str], Counter[str]] = {}
        short: dict[str, Counter[str]] = {}
        for pattern in self.model.patterns:
            for strategy in pattern.strategies:
                shapes = ["", "", *(_shape(one) for one in strategy.moves), "end"]
                for first, second, third in zip(shapes, shapes[1:], shapes[2:], strict=False):
                    long.setdefault((first, second), Counter())[third] += strategy.seen
                    short.setdefault(second, Counter())[third] += strategy.seen
        return long, short


def _instances(telltale: HopClassifier, entities: int) -> Iterator[Move]:
    move = telltale.move
    if telltale.scope == ALL or entities < 2:
        yield move
        return
    for number in range(1, entities + 1):
        yield replace(move, arguments=tuple(number if one == 1 else one for one in move.arguments))


def _shape(move: Move) -> str:
    """How a move is asked, with entities all alike."""
    arguments = [one if isinstance(one, int) and one < 0 else "{}" for one in move.arguments]
    return re.sub(r"\s", "", f"{move.mode}{move.then}{arguments}{move.over}")


def _share(counted: Counter[str], shape: str) -> float:
    return counted[shape] / counted.total() if counted else 0.0


def _excess(chance: float) -> float:
    """What an event costs beyond what its likelier alternative costs."""
    chance = min(max(chance, 1e-9), 1 - 1e-9)
    return max(0.0, math.log(1 - chance) - math.log(chance))
