"""The actions that need no model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from pearl.plan import Arg, Literal
from pearl.syntax.printer import print_value
from pearl.values import Pairs, Value, as_text, canonical_json, to_json, type_of


class BuiltinError(Exception):
    """A builtin that was given a value it cannot work on."""


class Given(NamedTuple):
    """An argument as written, and the value it has."""

    arg: Arg
    value: Value


def concat(given: Sequence[Given]) -> Value:
    """The inputs, one a line.

    A text that the plan itself writes keeps its quotes, so that a reader can
    tell the plan's words from what steps found out; PEARL's recorded answers
    are joined in this way.
    """
    return "\n".join(_shown(one) for one in given)


def _shown(one: Given) -> str:
    if isinstance(one.arg, Literal) and isinstance(one.value, str):
        return print_value(one.value)
    return as_text(one.value)


def flat(given: Sequence[Given]) -> Value:
    """One list of the items of the lists in a list."""
    items: list[Value] = []
    for item in _list(given[0].value, "FLAT"):
        if isinstance(item, list):
            items.extend(item)
        else:
            items.append(item)
    return items


def unique(given: Sequence[Given]) -> Value:
    """The first of equal items, in order."""
    first: dict[str, Value] = {}
    for item in _list(given[0].value, "UNIQUE"):
        first.setdefault(canonical_json(to_json(item)), item)
    return list(first.values())


def keys(given: Sequence[Given]) -> Value:
    """The keys of pairs, in order."""
    return [key for key, _ in _pairs(given[0].value, "KEYS")]


def values(given: Sequence[Given]) -> Value:
    """The values of pairs, in order."""
    return [value for _, value in _pairs(given[0].value, "VALUES")]


def count(given: Sequence[Given]) -> Value:
    """How many items a list or pairs have."""
    value = given[0].value
    if isinstance(value, list | Pairs):
        return len(value)
    raise BuiltinError(f"COUNT needs a list, and was given {type_of(value)}.")


def _list(value: Value, name: str) -> list[Value]:
    if isinstance(value, list):
        return value
    raise BuiltinError(f"{name} needs a list, and was given {type_of(value)}.")


def _pairs(value: Value, name: str) -> Pairs:
    if isinstance(value, Pairs):
        return value
    raise BuiltinError(f"{name} needs pairs, and was given {type_of(value)}.")


FUNCTIONS: Mapping[str, Callable[[Sequence[Given]], Value]] = MappingProxyType(
    {
        "concat": concat,
        "flat": flat,
        "unique": unique,
        "keys": keys,
        "values": values,
        "count": count,
    }
)
