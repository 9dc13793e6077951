"""What was learned, and its file.

A model holds the fill-in-the-blank questions of the agents it was learned
from, and for each kind of question the ways to decompose it. The file is JSON
that a person can read and correct; the same training gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pearl.agents import read_operation
from pearl.agents.hops import CHANGES, MODES
from pearl.learning.moves import BLANK, Form, Move
from pearl.plan import Mode
from pearl.source import InputError, read_source

KIND = "pearl commaqa model"
VERSION = 1


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


@dataclass(frozen=True)
class Model:
    """What was learned.

    Args:
        source: ``gold`` or ``answers``.
        forms: what agents answer, and in how many worlds each agent did.
        patterns: by their text.
    """

    source: str
    forms: Mapping[Form, Mapping[str, int]]
    patterns: tuple[Pattern, ...]

    @cached_property
    def agents(self) -> tuple[str, ...]:
        """The names of all agents, in order."""
        return tuple(sorted({name for names in self.forms.values() for name in names}))


def write_model(model: Model) -> str:
    """The text of a model's file."""
    forms = sorted(model.forms, key=lambda form: (form.phrasings, form.orders))
    numbers = {form: number for number, form in enumerate(forms, 1)}
    data = {
        "kind": KIND,
        "version": VERSION,
        "learned_from": model.source,
        "forms": [
            {"number": numbers[form], "phrasings": list(form.phrasings),
             "orders": [list(order) for order in form.orders],
             "agents": dict(sorted(model.forms[form].items()))}
            for form in forms
        ],
        "patterns": [
            {"question": pattern.question,
             "strategies": [
                 {"seen": one.seen, "moves": [_written(move, numbers) for move in one.moves]}
                 for one in pattern.strategies
             ]}
            for pattern in model.patterns
        ],
    }  # fmt: skip
    return json.dumps(data, ensure_ascii=False, indent=1) + "\n"


def _written(move: Move, numbers: Mapping[Form, int]) -> dict[str, Any]:
    name = next(name for name, mode in MODES.items() if mode is move.mode)
    told: dict[str, Any] = {
        "operator": "_".join((name, *move.then)),
        "form": numbers[move.form],
        "asks": move.form.phrasings[0],
        "with": list(move.arguments),
    }
    return told if move.over is None else {**told, "over": move.over}


def read_model(path: str) -> Model:
    """Read a model's file.

    Raises:
        InputError: it is none, or of another version.
    """
    source = read_source(path, "model")
    try:
        data = json.loads(source.text)
    except (ValueError, RecursionError):
        raise InputError(f"{path} is no model: make one with pearl learn commaqa.") from None
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise InputError(f"{path} is no model: make one with pearl learn commaqa.")
    if data.get("version") != VERSION:
        raise InputError(
            f"{path} is a model of version {data.get('version')}, and this Pearl reads "
            f"{VERSION}: learn it anew with pearl learn commaqa."
        )
    try:
        return _model(data)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise InputError(f"{path} is a damaged model: learn it anew.") from None


def _model(data: Mapping[str, Any]) -> Model:
    forms: dict[int, Form] = {}
    agents: dict[Form, Mapping[str, int]] = {}
    for one in data["forms"]:
        form = Form(_texts(one["phrasings"]), tuple(tuple(map(_whole, o)) for o in one["orders"]))
        _check_form(form)
        forms[_whole(one["number"])] = form
        agents[form] = {str(name): _whole(seen) for name, seen in one["agents"].items()}
    patterns = tuple(
        Pattern(
            *_texts([one["question"]]),
            tuple(
                Strategy(tuple(_move(move, forms) for move in way["moves"]), _whole(way["seen"]))
                for way in one["strategies"]
            ),
        )
        for one in data["patterns"]
    )
    return Model(*_texts([data["learned_from"]]), agents, patterns)


def _check_form(form: Form) -> None:
    for phrasing, order in zip(form.phrasings, form.orders, strict=True):
        if phrasing.count(BLANK) != len(order) or set(order) != set(range(form.blanks)):
            raise ValueError
    if not form.phrasings:
        raise ValueError


def _move(data: Mapping[str, Any], forms: Mapping[int, Form]) -> Move:
    operation, form = read_operation(data["operator"]), forms[data["form"]]
    over = data.get("over")
    arguments = tuple(one if isinstance(one, str) else _whole(one) for one in data["with"])
    if operation is None or operation.of or len(arguments) != form.blanks or 0 in arguments:
        raise ValueError
    if over is not None and (_whole(over) >= 0 or operation.mode is Mode.PLAIN):
        raise ValueError
    assert set(operation.then) <= set(CHANGES)
    return Move(operation.mode, operation.then, form, arguments, over)


def _texts(data: Iterable[Any]) -> tuple[str, ...]:
    texts = tuple(data)
    if not all(isinstance(one, str) for one in texts):
        raise TypeError
    return texts


def _whole(data: Any) -> int:  # noqa: ANN401 - any JSON
    if type(data) is not int:
        raise TypeError
    return data


def gathered(
    source: str,
    forms: Mapping[Form, Mapping[str, int]],
    examples: Iterable[tuple[str, Sequence[Move]]],
) -> Model:
    """A model of examples: how often each pattern went which way.

    Args:
        source: ``gold`` or ``answers``.
        forms: what agents answer, and in how many worlds each did.
        examples: a pattern and its moves, one for each question.
    """
    counted: dict[str, dict[tuple[Move, ...], int]] = {}
    known = {form: dict(names) for form, names in forms.items()}
    for pattern, moves in examples:
        ways = counted.setdefault(pattern, {})
        ways[tuple(moves)] = ways.get(tuple(moves), 0) + 1
    patterns = tuple(
        Pattern(
            question,
            tuple(
                Strategy(moves, seen)
                for moves, seen in sorted(ways.items(), key=lambda one: (-one[1], str(one[0])))
            ),
        )
        for question, ways in sorted(counted.items())
    )
    return Model(source, known, patterns)
