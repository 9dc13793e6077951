"""What a step's arguments are, for the whole step and for each item of a list that it runs over.

A reference stands for an earlier output; ``each``, ``where`` and ``values`` say how a list is gone
through (CommaQA, section 3: select, project and filter).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pearl.lang.ast import (
    Arg,
    Items,
    Literal,
    Mode,
    Ref,
    Template,
)
from pearl.lang.values import (
    Pairs,
    Value,
    as_text,
    type_of,
)
from pearl.runtime.evidence import evidence_key


class BindError(Exception):
    """A reference whose value does not fit its mode."""


class StepError(Exception):
    """A step that comes to nothing.

    Args:
        reason: as in `StepFailure`.
        message: one sentence for a person.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class SolverError(StepError):
    """A solver that has no answer.

    Its reason is ``no-answer`` where the question is not one it can answer, ``solver`` where it
    failed.
    """


class Output(NamedTuple):
    """What a step found, and the lines of the document that it quotes for it; None where that is
    not known, and may stand in its words."""

    value: Value
    evidence: Sequence[str] | None = None


class Item(NamedTuple):
    """One item of the list that the step maps.

    Args:
        key: its key in the result.
        value: what stands for it in the step's arguments.
        direct: whether all items of the list are short enough to be put into their texts.
    """

    key: Value
    value: Value
    direct: bool = False


def items_of(ref: Ref, values: Mapping[str, Value]) -> list[Item]:
    """The items that a mode goes over.

    Raises:
        BindError: the value has no items of the kind the mode needs.
    """
    value = values[ref.name]
    if ref.mode in (Mode.EACH_VALUES, Mode.WHERE_VALUES):
        if not isinstance(value, Pairs):
            raise BindError(f"{ref.mode} {ref.name} needs pairs, and it is {type_of(value)}.")
        return [Item(key, item) for key, item in value]
    if not isinstance(value, list):
        raise BindError(f"{ref.mode} {ref.name} needs a list, and it is {type_of(value)}.")
    return [Item(item, item) for item in value]


def join_answers(mode: Mode, items: Sequence[Item], answers: Sequence[Value]) -> Value:
    """The answers to the items as one value.

    ``each`` gives pairs of key and answer; ``where`` keeps the items, and
    ``where values`` the pairs, whose answer is yes.

    Raises:
        BindError: a filter's answer is neither yes nor no.
    """
    both = zip(items, answers, strict=True)
    if mode in (Mode.EACH, Mode.EACH_VALUES):
        return Pairs(tuple((item.key, answer) for item, answer in both))
    wrong = next((answer for answer in answers if not isinstance(answer, bool)), None)
    if wrong is not None:
        raise BindError(f"A filter needs yes or no, and was given {type_of(wrong)}.")
    passing = [item for item, answer in both if answer is True]
    if mode is Mode.WHERE_VALUES:
        return Pairs(tuple((item.key, item.value) for item in passing))
    return [item.value for item in passing]


def value_of(arg: Arg, values: Mapping[str, Value], item: Item | None) -> Value:
    """An argument's value; a reference whose items the step runs over stands for the item."""
    match arg:
        case Ref(mode=Mode.EVIDENCE):
            return values.get(evidence_key(arg.name), [])
        case Ref():
            if arg.maps and item is not None:
                return item.value if arg.mode.endswith("values") else item.key
            if arg.name not in values:
                raise BindError(f"{arg.name} stands inside an argument: make it one of its own.")
            return values[arg.name]
        case Literal():
            return arg.value
        case Items():
            return [value_of(inner, values, item) for inner in arg.items]
        case Template():
            return "".join(
                part if isinstance(part, str) else as_text(value_of(part, values, item))
                for part in arg.parts
            )


SHORT = 12
"""Words that a value of one line has at most to be put into an argument's text directly."""

SHORT_ITEM = 30
"""The same of the longest item of a list that a step runs over, so that all are put alike."""


def brief(value: Value, most: int) -> bool:
    """Whether a value is one line of so many words at most."""
    text = as_text(value)
    return "\n" not in text and len(text.split()) <= most and not isinstance(value, Pairs)


def as_written(
    arg: Arg, values: Mapping[str, Value], item: Item | None, long: dict[str, Value]
) -> str:
    """An argument as a prompt shows it: short values in place, longer ones by name.

    Args:
        arg: the argument.
        values: outputs of steps that ran before.
        item: the item that the step runs over.
        long: is given each value that the text names, in brackets, and does not hold.
    """
    match arg:
        case Ref():
            value = value_of(arg, values, item)
            if item.direct if arg.maps and item and value is item.value else brief(value, SHORT):
                return as_text(value)
            kind = "evidence of " if arg.mode is Mode.EVIDENCE else "one of " if arg.maps else ""
            name = f"{kind}{arg.name}"
            long[name] = value
            return f"[{name}]"
        case Literal():
            return as_text(arg.value)
        case Items():
            return "\n".join(as_written(inner, values, item, long) for inner in arg.items)
        case Template():
            return "".join(
                part if isinstance(part, str) else as_written(part, values, item, long)
                for part in arg.parts
            )
