"""A table of ``tools.toml``, read field by field, with what is wrong with it noted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the file, and where what is wrong with it goes.

    Args:
        place: where it stands, as ``weather.limits``.
        data: its keys and values.
        mistakes: one line each.
    """

    place: str
    data: dict[str, Any]
    mistakes: list[str]

    def wrong(self, message: str, key: str = "") -> None:
        """Note a mistake of this table, or of one of its fields."""
        place = f"{self.place}.{key}" if key else self.place
        self.mistakes.append(" ".join(f"{place}: {message}".split()))

    def only(self, *fields: str) -> None:
        """Note every field but these; one that is nearly one of them is read as it from then on."""
        for key in [key for key in self.data if key not in fields]:
            if close := get_close_matches(key, fields, 1):
                self._take(key, close[0])
            else:
                self.wrong(f"there is no such field: use {', '.join(fields)}.", key)

    def nearly(self, field: str, likeness: float) -> None:
        """As `only`, of a field that decides which others there are: how like it one must be."""
        if field not in self.data:
            for key in get_close_matches(field, self.data, 1, likeness):
                self._take(key, field)

    def _take(self, key: str, field: str) -> None:
        self.wrong(f"there is no such field: do you mean {field}?", key)
        value = self.data.pop(key)
        self.data.setdefault(field, value)

    def value(
        self,
        key: str,
        default: Any,  # noqa: ANN401 - any TOML
        form: str,
        fits: Callable[[Any], object],
        *others: type,
    ) -> Any:  # noqa: ANN401
        """A field's value; the default where it is not there, or does not fit, which is noted."""
        value = self.data.get(key, default)
        if type(value) in (type(default), *others) and fits(value):
            return value
        self.wrong(f"{form}.", key)
        return default

    def text(self, key: str, default: str = "") -> str:
        """A text in one line that is not empty."""
        is_line = lambda text: text.strip() and text.isprintable()  # noqa: E731
        return str(self.value(key, default, "give a text, in one line", is_line)).strip()

    def choice(self, key: str, *words: str) -> str:
        """A field that is one of these words; the first where it is not there."""
        close = get_close_matches(str(self.data.get(key)), words, 1)
        form = f"use {' or '.join(words)}{f'. Closest: {close[0]}' if close else ''}"
        return str(self.value(key, words[0], form, words.__contains__))

    def number(self, key: str, default: float, most: float) -> Any:  # noqa: ANN401
        """A number above 0; a whole one where the default is."""
        whole = "whole " if isinstance(default, int) else ""
        form = f"give a {whole}number above 0, and up to {most:,}"
        return self.value(key, default, form, lambda value: 0 < value <= most, int)

    def flag(self, key: str, *, default: bool) -> bool:
        """True or false."""
        return bool(self.value(key, default, "give true or false", lambda _: True))

    def table(self, key: str) -> Table:
        """A table in this one; empty where it is not there."""
        place = f"{self.place}.{key}"
        data = self.value(key, {}, f"give a table, as [{place}]", lambda _: True)
        return Table(place, data, self.mistakes)
