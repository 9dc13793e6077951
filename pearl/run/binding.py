"""Values for arguments: references looked up, templates filled, lists mapped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pearl.lang.ast import (
    DOCUMENT,
    Action,
    Arg,
    Items,
    Literal,
    Mode,
    Ref,
    Step,
    Template,
    step_refs,
)
from pearl.lang.builtins import Given, Label, read_label
from pearl.lang.values import Pairs, Value, as_text, type_of


class BindError(Exception):
    """A reference whose value does not fit its mode."""


class Item(NamedTuple):
    """One item of the list that a step maps: its key in the result, and its value."""

    key: Value
    value: Value


def mapped(step: Step) -> Ref | None:
    """The reference whose items the step runs over, if there is one."""
    return next((ref for ref in step_refs(step) if ref.mode is not Mode.PLAIN), None)


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


def together(mode: Mode, items: Sequence[Item], answers: Sequence[Value]) -> Value:
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
    kept = [item for item, answer in both if answer is True]
    if mode is Mode.WHERE_VALUES:
        return Pairs(tuple((item.key, item.value) for item in kept))
    return [item.value for item in kept]


def value_of(arg: Arg, values: Mapping[str, Value], item: Item | None) -> Value:
    """An argument's value; a reference with a mode stands for the item."""
    match arg:
        case Ref():
            if arg.mode and item is not None:
                return item.value
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


class Bound(NamedTuple):
    """A call's arguments.

    Args:
        arguments: what is given for each parameter but the document, in order.
        document: ``CTX`` where the call reads the whole document, a label
            where it reads a part, None where it reads none.
    """

    arguments: tuple[tuple[str, Given], ...]
    document: str | None


def bound(step: Step, action: Action, values: Mapping[str, Value], item: Item | None) -> Bound:
    """What a call is given: for the whole step, or for one item of its list.

    A label counts as one only where the action takes the document, and only
    where ``PARTS`` made it or the plan itself says it; no document and no
    output can name a part.
    """
    arguments: list[tuple[str, Given]] = []
    document: str | None = None
    for place, arg in enumerate(step.args):
        if isinstance(arg, Ref) and arg.name == DOCUMENT:
            document = DOCUMENT
            continue
        value = value_of(arg, values, item)
        param = action.params[place].name if place < len(action.params) else ""
        if param == DOCUMENT and _names_part(arg, value):
            document = as_text(value)
            continue
        arguments.append((param or f"S{len(arguments) + 1}", Given(arg, value)))
    return Bound(tuple(arguments), document)


def _names_part(arg: Arg, value: Value) -> bool:
    if isinstance(arg, Literal):
        return isinstance(value, str) and read_label(value) is not None
    return isinstance(value, Label)
