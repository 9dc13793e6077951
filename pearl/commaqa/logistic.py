"""Proposes the next hop from the words of a question, and from which hops tend to follow which.

Each learned hop has a logistic model of its own: given the words and short phrases of a question,
how likely is the hop to be part of its decomposition? A question with several entities is cut at
them, so that words about one entity are no evidence for hops about another. Nothing is fitted to
pairs of hops, so that hops never seen together are as likely as their words say. Hops that the
words call for and that were not asked are paid for at the end, and how often one operator follows
another is counted in the decompositions. Whether a hop makes sense after the earlier ones is left
to the agents, who do not answer what makes no sense.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from typing import Any, TypeAlias

from pearl.commaqa.decomposition import Hop
from pearl.commaqa.model import HOLE, HopClassifier, LearnedModel, Move, Pattern, fits, hop_of
from pearl.commaqa.search import Candidate
from pearl.lang.values import Value

ENOUGH = 30
"""The fewest kinds of question from which classifiers are fitted; fewer do not tell words apart."""

OWN, ALL = "own", "all"
"""The text that a hop is classified by: `OWN`, the part of the question for the one entity that the
hop rests on, or `ALL` of it, if that is none or several. With at most one entity a question has one
part, its whole text."""

_TOKEN = re.compile(r"\{[1-9][0-9]?\}|\w+")
_LONGEST = 3
_RIDGE, _RIDGE_OF_BIAS = 0.02, 0.001
_UNSEEN = 1e-4
"""The chance that a hop follows one that it never followed in training."""

Place: TypeAlias = tuple[Move, str, int]
"""A hop as classifiers know it, its scope, and the number of its part of the question, from 0."""


def features_of(text: str) -> frozenset[str]:
    """A text's words and phrases of up to three words; all holes count as the same word."""
    words = ("{}" if word.startswith("{") else word.casefold() for word in _TOKEN.findall(text))
    tokens = ["^", *words, "$"]
    return frozenset(
        " ".join(tokens[at : at + length])
        for length in range(1, _LONGEST + 1)
        for at in range(len(tokens) - length + 1)
    )


def parts_of(pattern: str, entities: int) -> tuple[str, ...]:
    """The part of a question's text for each entity: from the end of the entity before to its own.

    The last part goes on to the end of the text; with one entity or none there is one part.
    """
    if entities < 2:
        return (pattern,)
    holes = [f"{{{number}}}" for number in range(1, entities)]
    ends = [pattern.index(hole) + len(hole) for hole in holes]
    return tuple(pattern[start:end] for start, end in zip([0, *ends], [*ends, None], strict=True))


@dataclass(frozen=True, slots=True)
class _Path:
    """Hops of a question.

    Args:
        entities: how many entities the question has.
        moves: the hops.
        rests: for each hop, the entities it rests on, directly or through earlier answers.
        places: for each hop, its `Place`.
    """

    entities: int
    moves: tuple[Move, ...] = ()
    rests: tuple[frozenset[int], ...] = ()
    places: tuple[Place, ...] = ()

    def after(self, move: Move) -> _Path:
        rests: frozenset[int] = frozenset()
        for argument in (*move.arguments, move.over):
            if isinstance(argument, int):
                rests |= {argument} if argument > 0 else self.rests[argument]
        place = move, OWN, 0
        if self.entities > 1 and len(rests) != 1:
            place = move, ALL, 0
        elif self.entities > 1:
            (own,) = rests
            arguments = tuple(1 if number == own else number for number in move.arguments)
            place = replace(move, arguments=arguments), OWN, own - 1
        return _Path(
            self.entities, (*self.moves, move), (*self.rests, rests), (*self.places, place)
        )


# Fitting.


def fit_classifiers(patterns: Sequence[Pattern]) -> tuple[HopClassifier, ...]:
    """Classifiers of all hops; none where there are fewer than `ENOUGH` kinds of question."""
    if len(patterns) < ENOUGH:
        return ()
    examples: dict[str, list[tuple[frozenset[str], frozenset[Move]]]] = {OWN: [], ALL: []}
    for pattern in patterns:
        entities = len(HOLE.findall(pattern.question))
        texts = {(OWN, at): part for at, part in enumerate(parts_of(pattern.question, entities))}
        if entities > 1:
            texts[ALL, 0] = pattern.question
        for strategy in pattern.strategies:
            path = reduce(_Path.after, strategy.moves, _Path(entities))
            for (scope, part), text in texts.items():
                moves = frozenset(move for move, *place in path.places if place == [scope, part])
                examples[scope].append((features_of(text), moves))
    return tuple(hop for scope in (OWN, ALL) for hop in _fit(scope, examples[scope]))


def design_matrix(examples: Sequence[frozenset[str]]) -> tuple[list[str], Any]:
    """The features that occur more than once, and a matrix: a row for each example, a column for
    each of these features, and a last column of ones for the bias."""
    import numpy as np

    counted = Counter(itertools.chain.from_iterable(examples))
    repeated = sorted(feature for feature, times in counted.items() if times > 1)
    rows = [[*(feature in features for feature in repeated), 1] for features in examples]
    return repeated, np.array(rows, float)


def _fit(
    scope: str, examples: Sequence[tuple[frozenset[str], frozenset[Move]]]
) -> Iterator[HopClassifier]:
    """Fit a ridge-penalised logistic model for each hop, all of them at once."""
    moves = sorted({move for _, hops in examples for move in hops}, key=str)
    if not moves:
        return
    import numpy as np
    from scipy.optimize import minimize

    # Examples × moves; features and a bias × moves.
    repeated, inputs = design_matrix([features for features, _ in examples])
    targets = np.array([[move in hops for move in moves] for _, hops in examples], float)
    shape = (inputs.shape[1], len(moves))
    ridge = np.full(shape, _RIDGE)
    ridge[-1] = _RIDGE_OF_BIAS

    def loss(flat: Any) -> tuple[float, Any]:  # noqa: ANN401 - numpy's
        weights = flat.reshape(shape)
        sums = inputs @ weights
        value = np.logaddexp(0, sums).sum() - (targets * sums).sum()
        chances = 1 / (1 + np.exp(-np.clip(sums, -500, 500)))
        slope = inputs.T @ (chances - targets) + ridge * weights
        return float(value + 0.5 * (ridge * weights**2).sum()), slope.ravel()

    start = np.zeros(shape[0] * shape[1])
    fitted = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 200})
    for move, weights in zip(moves, fitted.x.reshape(shape).T, strict=True):
        *column, bias = [round(float(weight), 2) for weight in weights]
        weighted = zip(repeated, column, strict=True)
        phrases = {feature: weight for feature, weight in weighted if abs(weight) >= 0.05}
        yield HopClassifier(move, scope, bias, phrases)


# Proposing.


_Shape: TypeAlias = tuple[object, ...]
_START, _END = ("start",), ("end",)


class LogisticScorer:
    """Proposes hops by a question's words (a `HopScorer`); none where the model has no
    classifiers."""

    def __init__(self, model: LearnedModel) -> None:
        self.model = model
        self._chances = lru_cache(maxsize=256)(self._chances_of)
        self._moves = lru_cache(maxsize=16)(self._all_moves)

    def choices(
        self, question: str, hops: tuple[Hop, ...], answers: tuple[Value, ...]
    ) -> list[Candidate]:
        """Proposals, best first; a score is the logarithm of a probability."""
        if not self.model.classifiers:
            return []
        entities, chances = self._chances(question)
        path = self._path(entities, hops)
        if path is None:
            return []
        costs: dict[Hop, float] = {}
        for move in self._moves(path.entities):
            if not fits(move, path.entities, len(hops)):
                continue
            place = path.after(move).places[-1]
            chance = chances.get(place)
            if chance is None or place in path.places:
                continue
            cost = _excess(chance) - math.log(self._follows(path.moves, _shape(move)))
            for agent, more in self.model.agent_costs(move.form):
                costs[hop_of(move, agent, entities, len(hops) + 1)] = cost + more
        candidates = [Candidate(-cost, hop) for hop, cost in costs.items()]
        if hops:
            # To end costs more the likelier the hops are that were not asked.
            missed = [chance for place, chance in chances.items() if place not in path.places]
            cost = sum(_excess(1 - chance) for chance in missed)
            unasked = set(range(1, path.entities + 1)).difference(*path.rests)
            cost += self._unasked_cost * len(unasked)
            end = cost - math.log(self._follows(path.moves, _END))
            candidates.append(Candidate(-end, None))
        return sorted(candidates, key=lambda candidate: (-candidate.score, str(candidate.hop)))

    def _chances_of(self, question: str) -> tuple[tuple[str, ...], dict[Place, float]]:
        """A question's entities, and the probability of each hop in each place."""
        pattern, entities = self.model.pattern_of(question)
        chances: dict[Place, float] = {}
        parts = [features_of(part) for part in parts_of(pattern, len(entities))]
        for classifier in self.model.classifiers:
            if classifier.scope == OWN:
                for at, features in enumerate(parts):
                    chances[classifier.move, OWN, at] = classifier.probability(features)
            elif len(entities) > 1:
                chances[classifier.move, ALL, 0] = classifier.probability(features_of(pattern))
        return entities, chances

    def _all_moves(self, entities: int) -> tuple[Move, ...]:
        """The moves of all classifiers, for each entity that they may be about."""
        moves: dict[Move, None] = {}
        for classifier in self.model.classifiers:
            own = classifier.scope == OWN and entities > 1
            for number in range(1, entities + 1) if own else (1,):
                arguments = (number if at == 1 else at for at in classifier.move.arguments)
                moves[replace(classifier.move, arguments=tuple(arguments))] = None
        return tuple(moves)

    def _path(self, entities: Sequence[str], hops: Sequence[Hop]) -> _Path | None:
        """The hops as moves; None where one of them is no known move."""
        path = _Path(len(entities))
        for number, hop in enumerate(hops, 1):
            for move in self._moves(len(entities)):
                usable = fits(move, len(entities), number - 1)
                if usable and hop_of(move, hop.agent, entities, number) == hop:
                    path = path.after(move)
                    break
            else:
                return None
        return path

    def _follows(self, moves: Sequence[Move], shape: _Shape) -> float:
        """How often a shape follows the two shapes before it."""
        before = (_START, _START, *map(_shape, moves))[-2:]
        counted = (self._successors.get(before), self._successors.get(before[1:]))
        of_two, of_one = (times[shape] / times.total() if times else 0.0 for times in counted)
        return max(0.8 * of_two + 0.2 * of_one, _UNSEEN)

    @cached_property
    def _unasked_cost(self) -> float:
        """The cost of ending with an entity that no hop asks about: the rarer in training, the
        higher."""
        asked, entities = 0, 0
        for pattern in self.model.patterns:
            number = len(HOLE.findall(pattern.question))
            for strategy in pattern.strategies:
                path = reduce(_Path.after, strategy.moves, _Path(number))
                asked += strategy.count * len(frozenset().union(*path.rests))
                entities += strategy.count * number
        return -math.log(max(1 - asked / entities, _UNSEEN)) if entities else 0.0

    @cached_property
    def _successors(self) -> dict[tuple[_Shape, ...], Counter[_Shape]]:
        """How often shapes follow each shape, and each two shapes, in learned decompositions."""
        counted: dict[tuple[_Shape, ...], Counter[_Shape]] = {}
        for strategy in (each for pattern in self.model.patterns for each in pattern.strategies):
            shapes = [_START, _START, *map(_shape, strategy.moves), _END]
            for first, second, third in zip(shapes, shapes[1:], shapes[2:], strict=False):
                for context in ((first, second), (second,)):
                    counted.setdefault(context, Counter())[third] += strategy.count
        return counted


def _shape(move: Move) -> _Shape:
    """A move without its question, its entities' numbers and the order of its arguments.

    *Is it more than 40?* and *Is 40 more than it?* have the same shape, as the same hops precede
    them.
    """
    arguments = (str(arg) if isinstance(arg, int) and arg < 0 else "{}" for arg in move.arguments)
    return move.mode, move.then, tuple(sorted(arguments)), move.over


def _excess(chance: float) -> float:
    """The cost of an event of this probability above that of its opposite; at least 0."""
    chance = min(max(chance, 1e-9), 1 - 1e-9)
    return max(0.0, math.log(1 - chance) - math.log(chance))
