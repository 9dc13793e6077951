"""Reading a schema's tables a field at a time; what is wrong is said with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NoReturn

from pearl.source import InputError

NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a schema, and where it stands.

    Args:
        path: the file.
        place: the table's name in it, as ``relations.composed``.
        data: its keys and values.
    """

    path: str
    place: str
    data: Mapping[str, Any]

    def fail(self, message: str, key: str = "") -> NoReturn:
        """Raise `InputError` for this table, or for one of its keys."""
        place = ".".join(part for part in (self.place, key) if part)
        raise InputError(f"{self.path}: {f'{place}: ' if place else ''}{message}")

    def only(self, *keys: str) -> None:
        """Refuse any key but these."""
        for key in self.data:
            if key not in keys:
                self.fail(f"there is no such key: use {', '.join(keys)}.", key)

    def text(self, key: str, default: str | None = None) -> str:
        """A text that is not empty."""
        value = self.data.get(key, default)
        if not isinstance(value, str) or (not value.strip() and value != default):
            self.fail("give a text.", key)
        return value

    def texts(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """A list of texts, at least one where there is no default."""
        value = self.data.get(key, default)
        known = isinstance(value, list | tuple) and all(
            isinstance(one, str) and one.strip() for one in value
        )
        if value is None or not known or (not value and default is None):
            self.fail("give a list of texts, at least one.", key)
        return tuple(value)

    def number(self, key: str, default: int | None = None) -> int:
        """A whole number above 0."""
        value = self.data.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            self.fail("give a whole number above 0.", key)
        return value

    def span(self, key: str, default: tuple[int, int], least: int) -> tuple[int, int]:
        """The fewest and the most."""
        value = self.data.get(key, list(default))
        known = isinstance(value, list) and len(value) == 2
        if not known or any(not isinstance(one, int) or isinstance(one, bool) for one in value):
            self.fail("give the fewest and the most, as [1, 3].", key)
        if not least <= value[0] <= value[1] or value[1] < 1:
            self.fail(f"the fewest is at least {least}, and the most at least that and 1.", key)
        return value[0], value[1]

    def flag(self, key: str) -> bool:
        """True or false; false where it is not there."""
        value = self.data.get(key, False)
        if not isinstance(value, bool):
            self.fail("give true or false.", key)
        return value

    def table(self, key: str) -> Table:
        """A table in this one; empty where it is not there."""
        value = self.data.get(key, {})
        if not isinstance(value, dict):
            self.fail("give a table.", key)
        return Table(self.path, ".".join(part for part in (self.place, key) if part), value)

    def tables(self, key: str) -> Iterator[tuple[str, Table]]:
        """The named tables in a table of this one, at least one."""
        inner = self.table(key)
        if not inner.data:
            self.fail("give at least one.", key)
        for name in inner.data:
            if not NAME.fullmatch(name):
                inner.fail("a name is small letters, digits and _, a letter first.", name)
            yield name, inner.table(name)

    def known(self, name: str, names: Mapping[str, Any], what: str, key: str = "") -> str:
        """The name, where there is such a thing.

        Raises:
            InputError: there is not; names one that is close, or all.
        """
        if name not in names:
            close = get_close_matches(name, names, 1) or list(names)
            self.fail(f"no {what} is called {name}: use {', '.join(close)}.", key)
        return name
