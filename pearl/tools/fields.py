"""Reading a table of ``tools.toml`` a field at a time; mistakes are gathered, none is raised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any


@dataclass(frozen=True, slots=True)
class Fields:
    """A table, and where what is wrong with it goes.

    Args:
        place: where it stands, as ``weather.limits``.
        data: its keys and values.
        mistakes: one line each.
    """

    place: str
    data: Mapping[str, Any]
    mistakes: list[str]

    def wrong(self, message: str, key: str = "") -> None:
        """Note a mistake of this table, or of one of its fields."""
        place = f"{self.place}.{key}" if key else self.place
        self.mistakes.append(" ".join(f"{place}: {message}".split()))

    def only(self, known: Sequence[str]) -> None:
        """Note every field but these, with the one that is meant where there is such a one."""
        for key in self.data:
            if key not in known:
                close = get_close_matches(key, known, 1)
                use = f"do you mean {close[0]}?" if close else f"use {', '.join(known)}."
                self.wrong(f"there is no such field: {use}", key)

    def text(self, key: str, default: str | None = None) -> str:
        """A text in one line that is not empty."""
        value = self.data.get(key, default)
        if isinstance(value, str) and value.strip() and value.isprintable():
            return value.strip()
        self.wrong("give a text, in one line.", key)
        return default or ""

    def choice(self, key: str, known: Sequence[str], default: str) -> str:
        """One of a few words."""
        value = self.data.get(key, default)
        if value in known:
            return str(value)
        self.wrong(f"use {' or '.join(known)}.", key)
        return default

    def number(self, key: str, default: float, most: float) -> float:
        """A number above 0."""
        value = self.data.get(key, default)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= most:
            return value
        self.wrong(f"give a number above 0, and up to {most:,}.", key)
        return default

    def whole(self, key: str, default: int, most: int) -> int:
        """A whole number above 0."""
        value = self.data.get(key, default)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= most:
            return value
        self.wrong(f"give a whole number above 0, and up to {most:,}.", key)
        return default

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self.data.get(key, default)
        if isinstance(value, bool):
            return value
        self.wrong("give true or false.", key)
        return default

    def table(self, key: str) -> Fields:
        """A table in this one; empty where it is not there."""
        value = self.data.get(key, {})
        if not isinstance(value, dict):
            self.wrong(f"give a table, as [{self.place}.{key}].", key)
            value = {}
        return Fields(f"{self.place}.{key}", value, self.mistakes)

    def tables(self) -> Iterator[tuple[str, Fields]]:
        """The tables in this one, by name."""
        for key in self.data:
            yield key, self.table(key)
