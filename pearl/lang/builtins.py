"""The actions that need no model."""

import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, pairwise, zip_longest
from types import MappingProxyType
from typing import Literal as TypingLiteral
from typing import NamedTuple, TypeAlias

from pearl.lang.ast import DOCUMENT, Action, Arg, Builtin, Literal
from pearl.lang.printer import print_value
from pearl.lang.text import counted, pattern
from pearl.lang.values import (
    TYPES,
    DocumentLabel,
    Pairs,
    PartName,
    Type,
    Value,
    as_text,
    canonical_json,
    from_json,
    to_json,
    type_of,
)

LONGEST = 10_000_000
"""The most characters that JOIN puts between the items of a list, in all."""

MOST = 9999
"""The largest number of parts or groups, and the largest place in a list, that plans may give."""

_LABEL = pattern(rf"{re.escape(DOCUMENT)} ([0-9]{{1,6}})/([0-9]{{1,6}})")
_RANGE = pattern(rf"((?:{DOCUMENT}|items) [0-9/]+) to ((?:{DOCUMENT} )?[0-9/]+)")
"""The name of a group that is a range: of the document's parts, or of item numbers."""
_NAMED = pattern(rf"{re.escape(DOCUMENT)}\.(\S.*)")


class BuiltinError(Exception):
    """A builtin that was given a value it cannot work on."""


class Given(NamedTuple):
    """An argument as written, and the value it has."""

    arg: Arg
    value: Value


def concat(args: Sequence[Given]) -> Value:
    """The inputs, one a line.

    A text that the plan itself writes keeps its quotes, so that a reader can
    tell the plan's words from what steps found out; PEARL's recorded answers
    are joined in this way.
    """
    lines = []
    for source, value in args:
        quoted = isinstance(source, Literal) and isinstance(value, str)
        lines.append(print_value(value) if quoted else as_text(value))
    return "\n".join(lines)


def flat(args: Sequence[Given]) -> Value:
    """One list of the items of the lists in a list."""
    lists = (part if isinstance(part, list) else [part] for part in _list(args[0].value, "FLAT"))
    return list(chain.from_iterable(lists))


def unique(args: Sequence[Given]) -> Value:
    """The first of equal items, in order."""
    first: dict[str, Value] = {}
    for item in _list(args[0].value, "UNIQUE"):
        first.setdefault(canonical_json(to_json(item)), item)
    return list(first.values())


def keys(args: Sequence[Given]) -> Value:
    """The keys of pairs, in order."""
    return [key for key, _ in _pairs(args[0].value, "KEYS")]


def values(args: Sequence[Given]) -> Value:
    """The values of pairs, in order."""
    return [value for _, value in _pairs(args[0].value, "VALUES")]


def count(args: Sequence[Given]) -> Value:
    """How many items a list or pairs have."""
    value = args[0].value
    if isinstance(value, list | Pairs):
        return len(value)
    raise _mistaken("COUNT", "a list", value)


def by_item(args: Sequence[Given]) -> Value:
    """Pairs of each item of a list, or value of pairs, with the other lists' item at the same
    place; where there are several other lists, with the list of their items."""
    items, *others = (_items(arg.value, "BY_ITEM") for arg in args)
    if len({len(items), *map(len, others)}) > 1:
        raise BuiltinError("BY_ITEM needs as many items of each.")
    rows = zip(items, *others, strict=True)
    return Pairs(tuple((item, at[0] if len(at) == 1 else at) for item, *at in rows))


def keep_items(args: Sequence[Given]) -> Value:
    """The items of a list, or the pairs, whose answer at the same place is yes."""
    items, answers = args[0].value, _items(args[1].value, "KEEP_ITEMS")
    if len(_items(items, "KEEP_ITEMS")) != len(answers):
        raise BuiltinError("KEEP_ITEMS needs as many answers as items.")
    if isinstance(items, list):
        return [item for item, answer in zip(items, answers, strict=True) if answer is True]
    pairs = zip(_pairs(items, "KEEP_ITEMS"), answers, strict=True)
    return Pairs(tuple(pair for pair, answer in pairs if answer is True))


def split(args: Sequence[Given]) -> Value:
    """The parts of a text between its separators; its characters if the separator is empty."""
    text, by = (as_text(arg.value) for arg in args)
    pieces: list[Value] = [*text.split(by)] if by else [*text]
    return pieces


def join(args: Sequence[Given]) -> Value:
    """The items of a list as one text, with a separator between them."""
    between, items = as_text(args[1].value), _list(args[0].value, "JOIN")
    if len(between) * len(items) > LONGEST:
        raise BuiltinError(f"JOIN would make a text of more than {LONGEST:,} characters.")
    return between.join(map(as_text, items))


def item(args: Sequence[Given]) -> Value:
    """The item of a list, or the character of a text, at a place counted from 1, or the last."""
    value = args[0].value
    if not isinstance(value, list | str):
        raise _mistaken("ITEM", "a list or a text", value)
    last = is_of("last", args[1].value) and len(value) > 0
    place = len(value) if last else _number(args[1].value, "ITEM")
    if place > len(value):
        raise BuiltinError(f"ITEM was asked for number {place} of {len(value)}.")
    return value[place - 1]


def halves(args: Sequence[Given]) -> Value:
    """A list's two halves, as a list of two lists; the first has the middle item."""
    items = _list(args[0].value, "HALVES")
    middle = (len(items) + 1) // 2
    return [items[:middle], items[middle:]]


def rest(args: Sequence[Given]) -> Value:
    """A list without its first item."""
    return _list(args[0].value, "REST")[1:]


_SIGNS = {
    "DASH": "-",
    "HYPHEN": "-",
    "SLASH": "/",
    "PERIOD": ".",
    "UNDERSCORE": "_",
    "PIPE": "|",
    "TAB": "\t",
    "NEWLINE": "\n",
    "HASH": "#",
    "AND": "&",
}
"""Characters by common names that are not their Unicode names."""


def sign(args: Sequence[Given]) -> Value:
    """The character that a name stands for, as Unicode has it: ``semi-colon``, ``space``."""
    name = as_text(args[0].value)
    plain = name.strip().upper()
    spaced = plain.replace("-", " ")
    for guess in (plain, plain.replace("-", ""), spaced, f"{plain} SIGN", f"{plain} MARK"):
        if (short := guess.replace(" ", "")) in _SIGNS:
            return _SIGNS[short]
        with suppress(KeyError):
            return unicodedata.lookup(guess)
    if len(name) == 1:
        return name
    raise BuiltinError(f"SIGN knows no character called {name[:40]!r}.")


def number(args: Sequence[Given]) -> Value:
    """The last number of a text, whatever unit and marks it is written with."""
    from pearl.lang.numbers import last_number, plain

    text = as_text(args[0].value)
    last = last_number(text)
    if last is None:
        raise BuiltinError(f"LAST_NUMBER finds no number in {text[:40]!r}.")
    return plain(last)


SAID = pattern(
    r"(?im)(?:^|(?<=[.!?,;:])\s)[^\w\n]{0,20}+(?:(?:so|thus|therefore|hence),? )?"
    r"the (?:final )?answer is\b:?\s*"
)
"""The words with which a chain of thought introduces its answer."""


def conclusion(text: str) -> str:
    """The answer that a chain of thought states, one item a line; if none, the whole text."""
    pieces = SAID.split(text)
    if len(pieces) == 1:
        return text
    last = pieces[-1].strip()
    if last.startswith("["):
        try:
            data, _ = json.JSONDecoder().raw_decode(last)
            return as_text(from_json(data))
        except (ValueError, RecursionError):
            pass
    first = last.split("\n", 1)[0].strip()
    return first.strip("*_` ").removesuffix(".").strip('"“”*_` ').removesuffix(".") or text


def label(at: int, of: int) -> PartName:
    """The name of a part of the document; parts are counted from 1."""
    return PartName(f"{DOCUMENT} {at}/{of}")


def read_label(text: str) -> tuple[int, int] | None:
    """The part that a label names, and of how many; None for a text of another form."""
    match = _LABEL.fullmatch(text)
    return (int(match[1]), int(match[2])) if match else None


def read_name(text: str) -> str:
    """Which of several documents a label names; empty for a text of another form."""
    match = _NAMED.fullmatch(text)
    return match[1] if match else ""


def is_label(text: Value) -> bool:
    """Whether a text that a plan writes names a part of the document, or one of several."""
    return isinstance(text, str) and bool(read_label(text) or read_name(text))


def documents(args: Sequence[Given]) -> Value:
    """The labels of the documents with these names; without names, the label of the whole."""
    names = _list(args[0].value, "DOCUMENTS")
    return [DocumentLabel(f"{DOCUMENT}.{as_text(name)}") for name in names] or [label(1, 1)]


def parts(args: Sequence[Given]) -> Value:
    """The labels of the document's parts, when it is cut into a number of them."""
    of = _number(args[0].value, "PARTS")
    return [label(at, of) for at in range(1, of + 1)]


LONG_NAME = 32
"""The most words of a group's name; a group with a longer one is named by item numbers."""


def groups(args: Sequence[Given]) -> Value:
    """Neighbouring pairs, items of a list, or lines of a text, put into a number of groups: pairs
    of each group's name and what it holds."""
    value = args[0].value
    content: Value = [*value.splitlines()] if isinstance(value, str) else value
    whole = content if isinstance(content, list) else _pairs(content, "GROUPS").items
    number = min(_number(args[1].value, "GROUPS"), len(whole))
    ends = [round(at * len(whole) / number) for at in range(number + 1)] if number else []
    grouped: list[tuple[Value, Value]] = []
    for start, end in pairwise(ends):
        if isinstance(content, list):
            grouped.append((f"items {start + 1} to {end}", content[start:end]))
            continue
        items = _pairs(content, "GROUPS").items[start:end]
        first, last = items[0][0], items[-1][0]
        # A group of groups is named from the first group's start to the last group's end.
        begins, ends_at = (_RANGE.fullmatch(as_text(key)) for key in (first, last))
        begin = begins[1] if begins else as_text(first)
        reach = f"{begin} to {ends_at[2] if ends_at else as_text(last)}"
        name = first if len(items) == 1 else reach
        if len(as_text(name).split()) > LONG_NAME:
            # A long name would take the prompt's room from what the group holds.
            name = f"items {start + 1} to {end}"
        grouped.append((name, Pairs(items)))
    return Pairs(tuple(grouped))


def _number(value: Value, name: str) -> int:
    if isinstance(value, int) and is_of("count", value):
        return value
    raise BuiltinError(f"{name} needs a whole number from 1 to {MOST}.")


def _list(value: Value, name: str) -> list[Value]:
    if isinstance(value, list):
        return value
    raise _mistaken(name, "a list", value)


def _pairs(value: Value, name: str) -> Pairs:
    if isinstance(value, Pairs):
        return value
    raise _mistaken(name, "pairs", value)


def _items(value: Value, name: str) -> list[Value]:
    """The items of a list, or the values of pairs."""
    return [item for _, item in value] if isinstance(value, Pairs) else _list(value, name)


def _mistaken(name: str, expected: str, value: Value) -> BuiltinError:
    return BuiltinError(f"{name} needs {expected}, and was given {type_of(value)}.")


Kind: TypeAlias = Type | TypingLiteral["count", "last"]
"""A type, or the values of a type that a builtin takes: counts of a number, or ``last``."""

KINDS: Mapping[Kind, Type] = MappingProxyType(
    {**{kind: kind for kind in TYPES}, "count": "number", "last": "text"}
)
"""The type of each kind."""

_TAKES: Mapping[str, tuple[tuple[Kind, ...], ...]] = MappingProxyType(
    {
        "concat": (("any",),),
        **dict.fromkeys(("flat", "unique", "halves", "rest"), (("list",),)),
        **dict.fromkeys(("keys", "values"), (("pairs",),)),
        "count": (("list", "pairs"),),
        "documents": (),
        "parts": (("count",),),
        "groups": (("list", "pairs", "text"), ("count",)),
        **dict.fromkeys(("by_item", "keep_items"), (("list", "pairs"),) * 2),
        "split": (("any",), ("any",)),
        "join": (("list",), ("any",)),
        "item": (("list", "text"), ("count", "last")),
        **dict.fromkeys(("sign", "last_number", "conclusion"), (("any",),)),
    }
)

_REPEAT = MappingProxyType({"concat": "one", "by_item": "two"})
"""Builtins whose last parameter may repeat, and the least number of their parameters."""

_GIVES: Mapping[str, Type] = MappingProxyType(
    {
        **dict.fromkeys(("concat", "join", "sign"), "text"),
        **dict.fromkeys(("flat", "unique", "keys", "values", "documents", "parts"), "list"),
        **dict.fromkeys(("split", "halves", "rest"), "list"),
        **dict.fromkeys(("count", "last_number"), "number"),
        **dict.fromkeys(("groups", "by_item"), "pairs"),
    }
)


def misfit(action: Action) -> tuple[str, str]:
    """How an action's signature contradicts its builtin, and what to write instead; both are empty
    where they agree."""
    body = action.body
    name = body.function if isinstance(body, Builtin) else ""
    params = [param for param in action.params if param.name != DOCUMENT]
    takes, gives = _TAKES.get(name, ()), _GIVES.get(name, "any")
    more = name in _REPEAT and len(params) >= len(takes)
    if name in _TAKES and len(params) != len(takes) and not more:
        shown = f"at least {_REPEAT[name]}" if name in _REPEAT else f"{len(takes) or 'none'}"
        given = counted(len(params), "parameter")
        return f"the builtin {name} cannot take {given}.", f"It takes {shown}."
    for param, kinds in zip(params, takes, strict=False):
        types = [KINDS[kind] for kind in kinds]
        if "any" not in (param.type, *types) and param.type not in types:
            wrong = f"the builtin {name} takes no {param.type} for {param.name}."
            return wrong, f"It takes {' or '.join(types)}."
    if "any" not in (gives, action.returns) and gives != action.returns:
        return f"the builtin {name} gives no {action.returns}.", f"Write -> {gives}."
    return "", ""


def is_of(kind: Kind, value: Value) -> bool:
    """Whether a value is of a kind; every value is of the kind ``any``."""
    if kind == "count":
        return type(value) is int and 1 <= value <= MOST
    return value == "last" if kind == "last" else kind in ("any", type_of(value))


def kinds_taken(action: Action) -> list[tuple[Kind, ...]]:
    """The kinds of values that each parameter of an action takes, without the document.

    They are the types of the signature, narrowed to what the builtin can work on.
    """
    body = action.body
    usual = _TAKES.get(body.function, ()) if isinstance(body, Builtin) else ()
    types = (param.type for param in action.params if param.name != DOCUMENT)
    return [
        (at if own == "any" else tuple(kind for kind in at if KINDS[kind] == own)) or (own,)
        for own, at in zip_longest(types, usual, fillvalue=())
        if own
    ]


_SAME = (
    concat, flat, unique, keys, values, count, documents, parts, groups, by_item, keep_items, split,
    join, item, halves, rest, sign,
)  # fmt: skip

FUNCTIONS: Mapping[str, Callable[[Sequence[Given]], Value]] = MappingProxyType(
    {
        **{function.__name__: function for function in _SAME},
        "last_number": number,
        "conclusion": lambda args: conclusion(as_text(args[0].value)),
    }
)
