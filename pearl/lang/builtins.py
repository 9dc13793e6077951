"""The actions that need no model."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

from pearl.lang.ast import DOCUMENT, Arg, Literal
from pearl.lang.printer import print_value
from pearl.lang.values import (
    Pairs,
    Value,
    as_text,
    canonical_json,
    last_number,
    plain,
    to_json,
    type_of,
)

MOST = 9999
"""The most parts or groups."""

_LABEL = re.compile(rf"{re.escape(DOCUMENT)} ([0-9]{{1,6}})/([0-9]{{1,6}})")


class BuiltinError(Exception):
    """A builtin that was given a value it cannot work on."""


class Label(str):
    """The name of a part of the document, as ``CTX 1/3``.

    Only the plan makes one, through ``PARTS`` or by writing it: the same words
    in a document or an output are a text like any other.
    """

    __slots__ = ()


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


def split(given: Sequence[Given]) -> Value:
    """A text's parts between each occurrence of another; its characters where that is empty."""
    text, by = (as_text(one.value) for one in given)
    found: list[Value] = [*text.split(by)] if by else [*text]
    return found


def join(given: Sequence[Given]) -> Value:
    """The items of a list as one text, with a text between them."""
    return as_text(given[1].value).join(map(as_text, _list(given[0].value, "JOIN")))


def item(given: Sequence[Given]) -> Value:
    """The item of a list, or the character of a text, at a place counted from 1."""
    value, place = given[0].value, _number(given[1].value, "ITEM")
    if not isinstance(value, list | str):
        raise BuiltinError(f"ITEM needs a list or a text, and was given {type_of(value)}.")
    if place > len(value):
        raise BuiltinError(f"ITEM was asked for number {place} of {len(value)}.")
    return value[place - 1]


def halves(given: Sequence[Given]) -> Value:
    """A list's two halves, as a list of two lists; the first has the middle item."""
    items = _list(given[0].value, "HALVES")
    middle = (len(items) + 1) // 2
    return [items[:middle], items[middle:]]


def rest(given: Sequence[Given]) -> Value:
    """A list without its first item."""
    return _list(given[0].value, "REST")[1:]


def sign(given: Sequence[Given]) -> Value:
    """The character that a name stands for, as Unicode has it: ``semi-colon``, ``space``."""
    name = as_text(given[0].value)
    plain = name.strip().upper()
    for tried in (
        plain,
        plain.replace("-", ""),
        plain.replace("-", " "),
        f"{plain} SIGN",
        f"{plain} MARK",
    ):
        found = _SIGNS.get(tried.replace(" ", "")) or _looked_up(tried)
        if found:
            return found
    if len(name) == 1:
        return name
    raise BuiltinError(f"SIGN knows no character called {name[:40]!r}.")


def number(given: Sequence[Given]) -> Value:
    """The last number of a text, whatever unit and marks it is written with."""
    text = as_text(given[0].value)
    found = last_number(text)
    if found is None:
        raise BuiltinError(f"LAST_NUMBER finds no number in {text[:40]!r}.")
    return plain(found)


_SIGNS = {"DASH": "-", "HYPHEN": "-", "SLASH": "/", "PERIOD": ".", "UNDERSCORE": "_", "PIPE": "|",
          "TAB": "\t", "NEWLINE": "\n", "HASH": "#", "AND": "&"}  # fmt: skip
"""Names in use that Unicode has others for."""


def _looked_up(name: str) -> str:
    try:
        return unicodedata.lookup(name)
    except KeyError:
        return ""


def label(at: int, of: int) -> Label:
    """The name of a part of the document; parts are counted from 1."""
    return Label(f"{DOCUMENT} {at}/{of}")


def read_label(text: str) -> tuple[int, int] | None:
    """Which part of how many a label names; None for a text of another form."""
    found = _LABEL.fullmatch(text)
    return (int(found[1]), int(found[2])) if found else None


def parts(given: Sequence[Given]) -> Value:
    """The names of the document's parts, when it is cut into so many."""
    of = _number(given[0].value, "PARTS")
    return [label(at, of) for at in range(1, of + 1)]


def groups(given: Sequence[Given]) -> Value:
    """Neighbouring pairs together, in so many groups, as pairs of pairs."""
    items = _pairs(given[0].value, "GROUPS").items
    number = min(_number(given[1].value, "GROUPS"), len(items))
    ends = [round(at * len(items) / number) for at in range(number + 1)] if number else []
    together = [items[start:end] for start, end in pairwise(ends)]
    return Pairs(tuple((_from_to(group), Pairs(group)) for group in together))


def _from_to(group: Sequence[tuple[Value, Value]]) -> Value:
    first, last = group[0][0], group[-1][0]
    return first if len(group) == 1 else f"{as_text(first)} to {as_text(last)}"


def _number(value: Value, name: str) -> int:
    if type(value) is int and 1 <= value <= MOST:
        return value
    raise BuiltinError(f"{name} needs a whole number from 1 to {MOST}.")


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
        "parts": parts,
        "groups": groups,
        "split": split,
        "join": join,
        "item": item,
        "halves": halves,
        "rest": rest,
        "sign": sign,
        "last_number": number,
    }
)
