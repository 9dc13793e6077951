"""What was learned, and its file.

A model holds the fill-in-the-blank questions of the agents it was learned
from, and for each kind of question the ways to decompose it. The file is JSON
that a person can read and correct; the same training gives the same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pearl.agents import read_operation
from pearl.agents.hops import MODES
from pearl.learning.moves import BLANK, Form, Move
from pearl.learning.telltales import Telltale, fit_telltales
from pearl.plan import Mode
from pearl.source import InputError, read_source

KIND = "pearl commaqa model"
VERSION = 1

_HOLE = re.compile(r"\{([1-9][0-9]?)\}")


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
        telltales: which words tell of which hops; none where there are few patterns.
    """

    source: str
    forms: Mapping[Form, Mapping[str, int]]
    patterns: tuple[Pattern, ...]
    telltales: tuple[Telltale, ...] = ()

    @cached_property
    def agents(self) -> tuple[str, ...]:
        """The names of all agents, in order."""
        return tuple(sorted({name for names in self.forms.values() for name in names}))


def write_model(model: Model) -> str:
    """The text of a model's file."""
    forms = sorted(model.forms, key=lambda form: (form.phrasings, form.orders))
    numbers = {form: number for number, form in enumerate(forms, 1)}
    head = {"kind": KIND, "version": VERSION, "learned_from": model.source}
    lines = [f"{_line(key)}: {_line(value)}," for key, value in head.items()]
    lines.append('"forms": [')
    lines += _joined(
        _line({"number": numbers[form], "phrasings": _numbered(form),
               "agents": dict(sorted(model.forms[form].items()))})
        for form in forms
    )  # fmt: skip
    lines += ["],", '"patterns": [']
    lines += _joined(_written(pattern, numbers) for pattern in model.patterns)
    lines += ["],", '"telltales": [']
    lines += _joined(
        _line({**_move_data(one.move, numbers), "scope": one.scope, "bias": one.bias,
               "phrases": dict(one.phrases)})
        for one in model.telltales
    )  # fmt: skip
    return "\n".join(["{", *lines, "]", "}"]) + "\n"


def _line(data: Any) -> str:  # noqa: ANN401 - any JSON
    return json.dumps(data, ensure_ascii=False)


def _joined(lines: Iterable[str]) -> list[str]:
    every = list(lines)
    return [f"{line}," for line in every[:-1]] + every[-1:]


def _numbered(form: Form) -> list[str]:
    """The phrasings with the arguments' numbers in their blanks."""
    numbers = [f"{{{number}}}" for number in range(1, form.blanks + 1)]
    return [form.asked(numbers, at) for at in range(len(form.phrasings))]


def _written(pattern: Pattern, numbers: Mapping[Form, int]) -> str:
    """A pattern, one move a line."""
    ways = []
    for one in pattern.strategies:
        moves = ",\n  ".join(_line(_move_data(move, numbers)) for move in one.moves)
        ways.append(f'{{"seen": {one.seen}, "moves": [\n  {moves}]}}')
    joined = ",\n ".join(ways)
    return f'{{"question": {_line(pattern.question)}, "strategies": [\n {joined}]}}'


def _move_data(move: Move, numbers: Mapping[Form, int]) -> dict[str, Any]:
    name = next(name for name, mode in MODES.items() if mode is move.mode)
    told: dict[str, Any] = {
        "operator": "_".join((name, *move.then)),
        "form": numbers[move.form],
        "asks": _numbered(move.form)[0],
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
        form = _form([_text(phrasing) for phrasing in one["phrasings"]])
        forms[_whole(one["number"])] = form
        agents[form] = {str(name): _whole(seen) for name, seen in one["agents"].items()}
    patterns = tuple(
        Pattern(
            _text(one["question"]),
            tuple(
                Strategy(tuple(_move(move, forms) for move in way["moves"]), _whole(way["seen"]))
                for way in one["strategies"]
            ),
        )
        for one in data["patterns"]
    )
    telltales = tuple(
        Telltale(
            _move(one, forms), _text(one["scope"]), float(one["bias"]),
            {_text(phrase): float(weight) for phrase, weight in one["phrases"].items()},
        )
        for one in data["telltales"]
    )  # fmt: skip
    return Model(_text(data["learned_from"]), agents, patterns, telltales)


def _form(phrasings: Sequence[str]) -> Form:
    parts = [_HOLE.split(one) for one in phrasings]
    orders = tuple(tuple(int(number) - 1 for number in one[1::2]) for one in parts)
    if not orders or any(set(one) != set(range(len(set(orders[0])))) for one in orders):
        raise ValueError
    return Form(tuple(BLANK.join(one[::2]) for one in parts), orders)


def _move(data: Mapping[str, Any], forms: Mapping[int, Form]) -> Move:
    operation, form = read_operation(data["operator"]), forms[data["form"]]
    over = data.get("over")
    arguments = tuple(one if isinstance(one, str) else _whole(one) for one in data["with"])
    if operation is None or operation.of or len(arguments) != form.blanks or 0 in arguments:
        raise ValueError
    if over is not None and (_whole(over) >= 0 or operation.mode is Mode.PLAIN):
        raise ValueError
    return Move(operation.mode, operation.then, form, arguments, over)


def _text(data: Any) -> str:  # noqa: ANN401 - any JSON
    if not isinstance(data, str):
        raise TypeError
    return data


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
    return Model(source, known, patterns, fit_telltales(patterns))
