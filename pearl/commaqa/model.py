"""What was learned, and its file.

A model holds the fill-in-the-blank questions of the agents it was learned from, for each kind of
question the ways to decompose it, and what tells of each hop. The file is JSON that a person can
read and correct; the same training gives the same bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar

from pearl.commaqa.decomposition import Operation, print_operation, read_operation
from pearl.commaqa.patterns import BLANK, HOLE, Form, Move, opened, strange_entities, words_of
from pearl.lang.ast import Mode
from pearl.lang.source import InputError, read_source

T = TypeVar("T")

_KIND = "pearl commaqa model"
_VERSION = 1
_STRANGER = 6.0
"""What it costs to ask an agent that was never seen to answer this, as a negative logarithm."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to decompose questions of a kind.

    Args:
        moves: its hops.
        seen: how many questions went that way.
    """

    moves: tuple[Move, ...]
    seen: int


@dataclass(frozen=True, slots=True)
class Pattern:
    """A kind of question.

    Args:
        question: with holes, ``What movies have the directors from {1} directed?``.
        strategies: the one that was seen most comes first.
    """

    question: str
    strategies: tuple[Strategy, ...]

    @property
    def seen(self) -> int:
        """How many questions were of this kind."""
        return sum(strategy.seen for strategy in self.strategies)


@dataclass(frozen=True, slots=True)
class HopClassifier:
    """A logistic model of whether a hop is part of a question's decomposition.

    Args:
        move: the hop; the entity that it rests on is its first.
        scope: which text tells of it, `OWN` or `ALL` of `pearl.commaqa.logistic`.
        bias: of the model, with no feature.
        weights: what each feature, a word or a short phrase, adds.
    """

    move: Move
    scope: str
    bias: float
    weights: Mapping[str, float]

    def probability(self, features: Iterable[str]) -> float:
        """How likely the hop is, given a text's features."""
        total = self.bias + sum(self.weights.get(feature, 0.0) for feature in features)
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))


@dataclass(frozen=True)
class Model:
    """What was learned.

    Args:
        source: ``gold`` or ``answers``.
        forms: what agents answer, and in how many worlds each agent did.
        patterns: by their text.
        classifiers: which words tell of which hops; none where there are few patterns.
    """

    source: str
    forms: Mapping[Form, Mapping[str, int]]
    patterns: tuple[Pattern, ...]
    classifiers: tuple[HopClassifier, ...] = ()

    @cached_property
    def agents(self) -> tuple[str, ...]:
        """The names of all agents, in order."""
        return tuple(sorted({name for names in self.forms.values() for name in names}))

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        texts = [one.question for one in self.patterns]
        texts += [phrasing for form in self.forms for phrasing in form.phrasings]
        return frozenset(word for text in texts for word in words_of(text))

    def opened(self, question: str) -> tuple[str, tuple[str, ...]]:
        """A question of no known pattern with holes, and its entities: what no known word is."""
        return opened(question, strange_entities(question, self._vocabulary))

    def agent_costs(self, form: Form) -> list[tuple[str, float]]:
        """All agents, and what it costs to ask each: how rarely it was the one to answer."""
        seen = self.forms.get(form, {})
        total = sum(seen.values())
        return [
            (agent, -math.log(seen[agent] / total) if seen.get(agent) else _STRANGER)
            for agent in self.agents
        ]


def write_model(model: Model) -> str:
    """The text of a model's file."""
    forms = sorted(model.forms, key=lambda form: (form.phrasings, form.orders))
    numbers = {form: number for number, form in enumerate(forms, 1)}

    def pattern(one: Pattern) -> str:
        """A pattern, one move a line."""
        strategies = []
        for way in one.strategies:
            moves = ",\n  ".join(_json(_move_data(move, numbers)) for move in way.moves)
            strategies.append(f'{{"seen": {way.seen}, "moves": [\n  {moves}]}}')
        joined = ",\n ".join(strategies)
        return f'{{"question": {_json(one.question)}, "strategies": [\n {joined}]}}'

    def classifier(one: HopClassifier) -> str:
        tells = {"scope": one.scope, "bias": one.bias, "phrases": dict(one.weights)}
        return _json(_move_data(one.move, numbers) | tells)

    sections = {
        "forms": [
            f'{{"number": {numbers[form]}, "phrasings": {_json(_numbered(form))}, '
            f'"agents": {_json(dict(sorted(model.forms[form].items())))}}}'
            for form in forms
        ],
        "patterns": map(pattern, model.patterns),
        # The name is of the format, which has kept it.
        "telltales": map(classifier, model.classifiers),
    }
    head = {"kind": _KIND, "version": _VERSION, "learned_from": model.source}
    lines = [f"{_json(key)}: {_json(value)}" for key, value in head.items()]
    for name, items in sections.items():
        joined = ",\n".join(items)
        lines.append(f'"{name}": [\n{joined}\n]' if joined else f'"{name}": [\n]')
    return "{\n" + ",\n".join(lines) + "\n}\n"


_json = partial(json.dumps, ensure_ascii=False)


def _numbered(form: Form) -> list[str]:
    """The phrasings with the arguments' numbers in their blanks."""
    numbers = [f"{{{number}}}" for number in range(1, form.blanks + 1)]
    return [form.fill(numbers, at) for at in range(len(form.phrasings))]


def _move_data(move: Move, numbers: Mapping[Form, int]) -> dict[str, Any]:
    over = {} if move.over is None else {"over": move.over}
    return {
        "operator": print_operation(Operation(move.mode, None, move.then)),
        "form": numbers[move.form],
        "asks": _numbered(move.form)[0],
        "with": list(move.arguments),
        **over,
    }


def read_model(path: str) -> Model:
    """Read a model's file.

    Raises:
        InputError: it is none, or of another version.
    """
    text = read_source(path, "model").text
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or data.get("kind") != _KIND:
        raise InputError(f"{path} is no model: make one with pearl learn commaqa.")
    if data.get("version") != _VERSION:
        raise InputError(
            f"{path} is a model of version {data.get('version')}, and this Pearl reads "
            f"{_VERSION}: learn it anew with pearl learn commaqa."
        )
    try:
        return _model(data)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise InputError(f"{path} is a damaged model: learn it anew.") from None


def _model(data: Mapping[str, Any]) -> Model:
    forms: dict[int, Form] = {}
    agents: dict[Form, Mapping[str, int]] = {}
    for one in data["forms"]:
        form = forms[_is(int, one["number"])] = _form([_is(str, text) for text in one["phrasings"]])
        agents[form] = {name: _is(int, seen) for name, seen in one["agents"].items()}

    def move(data: Mapping[str, Any]) -> Move:
        operation, form, over = read_operation(data["operator"]), forms[data["form"]], None
        if data.get("over") is not None:
            over = _is(int, data["over"])
        arguments = tuple(one if isinstance(one, str) else _is(int, one) for one in data["with"])
        if operation is None or operation.of or len(arguments) != form.blanks or 0 in arguments:
            raise ValueError
        if over is not None and (over >= 0 or operation.mode is Mode.PLAIN):
            raise ValueError
        return Move(operation.mode, operation.then, form, arguments, over)

    patterns = []
    for one in data["patterns"]:
        strategies = (
            Strategy(tuple(map(move, way["moves"])), _is(int, way["seen"]))
            for way in one["strategies"]
        )
        patterns.append(Pattern(_is(str, one["question"]), tuple(strategies)))
    classifiers = []
    for one in data["telltales"]:
        weights = {phrase: float(weight) for phrase, weight in one["phrases"].items()}
        scope, bias = _is(str, one["scope"]), float(one["bias"])
        classifiers.append(HopClassifier(move(one), scope, bias, weights))
    source = _is(str, data["learned_from"])
    return Model(source, agents, tuple(patterns), tuple(classifiers))


def _form(phrasings: Sequence[str]) -> Form:
    parts = [HOLE.split(one) for one in phrasings]
    orders = tuple(tuple(int(number) - 1 for number in one[1::2]) for one in parts)
    if not orders or any(set(one) != set(range(len(set(orders[0])))) for one in orders):
        raise ValueError
    return Form(tuple(BLANK.join(one[::2]) for one in parts), orders)


def _is(kind: type[T], data: Any) -> T:  # noqa: ANN401 - any JSON
    if type(data) is not kind:
        raise TypeError
    return data
