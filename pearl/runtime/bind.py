"""Values for arguments: references looked up, templates filled, lists mapped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pearl.plan import DOCUMENT, Arg, Items, Literal, Mode, Ref, Step, Template, step_refs
from pearl.values import Pairs, Value, as_text, type_of


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


def value_of(arg: Arg, values: Mapping[str, Value], item: Item | None) -> Value:
    """An argument's value; a reference with a mode stands for the item."""
    match arg:
        case Ref():
            return item.value if arg.mode and item is not None else values[arg.name]
        case Literal():
            return arg.value
        case Items():
            return [value_of(one, values, item) for one in arg.items]
        case Template():
            return "".join(_filled(arg, values, item))


def _filled(template: Template, values: Mapping[str, Value], item: Item | None) -> Iterator[str]:
    for part in template.parts:
        yield part if isinstance(part, str) else as_text(value_of(part, values, item))


def takes_document(step: Step) -> bool:
    """Whether the document is one of the step's arguments."""
    return any(isinstance(arg, Ref) and arg.name == DOCUMENT for arg in step.args)
