"""Reading a schema's file: kinds, relations, limits and splits.

`pearl.generating.parts` reads the asks and the pieces.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any

from pearl.generating.fields import Table
from pearl.generating.names import invented
from pearl.generating.parts import read_asks, read_pieces
from pearl.generating.schema import IID, Ask, Kind, Limits, Pair, Relation, Schema
from pearl.source import InputError, read_source

_ENTITY = re.compile(r"\w(?:[\w '’.&-]*[\w.])?")
_SLOT = re.compile(r"\$([0-9]+)")
_MOST_NAMES = 5000
_MOST_STEPS = 20
_STYLES = ("Capital", "small")


def shipped_schemas() -> tuple[str, ...]:
    """The names of the schemas that ship with Pearl."""
    found = (files("pearl.generating") / "schemas").iterdir()
    names = [entry.name.removesuffix(".toml") for entry in found if entry.name.endswith(".toml")]
    return tuple(sorted(names))


def shipped_text(name: str) -> str:
    """A shipped schema's file, to start one's own from.

    Raises:
        InputError: no schema of that name ships with Pearl.
    """
    if name not in shipped_schemas():
        known = ", ".join(shipped_schemas())
        raise InputError(
            f"No schema {name} ships with Pearl: use {known}, or name a .toml or .json file."
        )
    return (files("pearl.generating") / "schemas" / f"{name}.toml").read_text(encoding="utf-8")


def read_schema(name: str) -> Schema:
    """Read a schema.

    Args:
        name: one that ships with Pearl, or a file that ends in ``.toml`` or ``.json``.

    Raises:
        InputError: the file cannot be read, or something in it cannot be used;
            one line that names the place.
    """
    if not name.endswith((".toml", ".json")):
        return _schema(_toml(shipped_text(name), f"{name}.toml"), f"{name}.toml", name)
    text = read_source(name, "schema").text
    data = _json(text, name) if name.endswith(".json") else _toml(text, name)
    return _schema(data, name, Path(name).stem)


def _toml(text: str, path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not TOML: {error}.") from None


def _json(text: str, path: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}.") from None
    if not isinstance(data, dict):
        raise InputError(f"{path} is no schema: give one object, with kinds, relations and so on.")
    return data


def _schema(data: Mapping[str, Any], path: str, name: str) -> Schema:
    table = Table(path, "", data)
    table.only("about", "limits", "kinds", "relations", "asks", "pieces", "splits")
    kinds = _kinds(table, name)
    relations = {one: _relation(one, inner, kinds) for one, inner in table.tables("relations")}
    asks = read_asks(table, relations)
    return Schema(
        path,
        name,
        table.text("about", ""),
        kinds,
        relations,
        asks,
        read_pieces(table, kinds, asks),
        _splits(table, asks),
        _limits(table.table("limits")),
    )


def _limits(table: Table) -> Limits:
    table.only("steps", "answers", "questions")
    steps = table.span("steps", (1, 4), 1)
    if steps[1] > _MOST_STEPS:
        table.fail(f"{_MOST_STEPS} steps are the most.", "steps")
    return Limits(steps, table.span("answers", (1, 5), 1), table.number("questions", 5))


def _kinds(table: Table, seed: str) -> dict[str, Kind]:
    tables = dict(table.tables("kinds"))
    given = [name for inner in tables.values() for name in _given(inner)]
    if len(set(given)) < len(given):
        twice = next(name for name in given if given.count(name) > 1)
        table.fail(f"{twice} is named twice: a name stands for one thing.", "kinds")
    words = invented(seed, frozenset(name.lower() for name in given))
    found: dict[str, Kind] = {}
    for name, inner in tables.items():
        inner.only("names", "style", "numbers", "each_world")
        pool = _given(inner) or _numbers(inner) or _invented(inner, words)
        count = inner.number("each_world", len(pool))
        if count > len(pool):
            inner.fail(f"there are {len(pool)} alone.", "each_world")
        found[name] = Kind(name, pool, count)
    return found


def _invented(table: Table, words: Iterator[str]) -> tuple[str, ...]:
    """As many new names as a kind's table says."""
    style = table.text("style", _STYLES[0])
    if style not in _STYLES:
        table.fail(f"use {' or '.join(_STYLES)}.", "style")
    wanted = table.number("names")
    if wanted > _MOST_NAMES:
        table.fail(f"{_MOST_NAMES} names are the most.", "names")
    drawn = [next(words) for _ in range(wanted)]
    return tuple(word.capitalize() if style == _STYLES[0] else word for word in drawn)


def _given(table: Table) -> tuple[str, ...]:
    """The names that a kind's table lists; none where it lists none."""
    if not isinstance(table.data.get("names"), list):
        return ()
    names = table.texts("names")
    for name in names:
        if not _ENTITY.fullmatch(name):
            table.fail(f"a name is letters, digits, spaces and hyphens, unlike {name!r}.", "names")
    return names


def _numbers(table: Table) -> tuple[str, ...]:
    """The numbers of a kind, in its own decimal digits; none where it has names."""
    if "numbers" not in table.data:
        return ()
    if "names" in table.data:
        table.fail("give names or numbers, not both.")
    inner = table.table("numbers")
    inner.only("from", "to", "step")
    low, high, step = (_number(inner, key) for key in ("from", "to", "step"))
    if step <= 0 or high < low:
        inner.fail("to is at least from, and step above 0.")
    count = int((high - low) / step) + 1
    if count > _MOST_NAMES:
        inner.fail(f"{_MOST_NAMES} numbers are the most: make step larger.")
    finest = min(low, step, key=lambda one: int(one.as_tuple().exponent))
    return tuple(f"{(low + step * at).quantize(finest):f}" for at in range(count))


def _number(table: Table, key: str) -> Decimal:
    value = table.data.get(key, 1 if key == "step" else None)
    if not isinstance(value, int | float) or isinstance(value, bool):
        table.fail("give a number.", key)
    if not 0 <= value < 10**9:
        table.fail("a number is at least 0 and has at most 9 digits.", key)
    number = Decimal(str(value))
    if int(number.as_tuple().exponent) < -6:
        table.fail("a number has at most 6 digits behind its point.", key)
    return number


def _relation(name: str, table: Table, kinds: Mapping[str, Kind]) -> Relation:
    table.only("of", "each", "says")
    of = table.texts("of") if table.data.get("of") != 2 else ()
    if len(of) != 2:
        table.fail("name two kinds.", "of")
    first, second = (table.known(kind, kinds, "kind", "of") for kind in of)
    each = table.span("each", (1, 1), 0)
    others = kinds[second].count - (first == second)
    if each[1] > others:
        table.fail(f"a world has {others} of {second} to choose from.", "each")
    inner = table.table("says")
    says = {agent: inner.texts(agent) for agent in inner.data}
    if not says:
        table.fail('name the agents that may know it, as says.table = ["…"].')
    for agent, texts in says.items():
        for text in texts:
            if sorted(_SLOT.findall(text)) != ["1", "2"]:
                inner.fail(f"write $1 and $2 once each in {text!r}.", agent)
    return Relation(name, (first, second), each, says)


def _splits(table: Table, asks: Mapping[str, Ask]) -> dict[str, tuple[Pair, ...]]:
    found: dict[str, tuple[Pair, ...]] = {IID: ()}
    inner = table.table("splits")
    for name in inner.data:
        if name == IID:
            inner.fail("it holds nothing out: leave it away.", name)
        split = inner.table(name)
        split.only("held_out")
        given = split.data.get("held_out")
        if not isinstance(given, list) or not given:
            split.fail('give pairs of asks, as [["one", "other"]].', "held_out")
        pairs: list[Pair] = []
        for pair in given:
            if not isinstance(pair, list) or [type(one) for one in pair] != [str, str]:
                split.fail('give pairs of asks, as [["one", "other"]].', "held_out")
            one, other = (split.known(ask, asks, "ask", "held_out") for ask in pair)
            pairs.append((one, other))
        found[name] = tuple(pairs)
    return found
