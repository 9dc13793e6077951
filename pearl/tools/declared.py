"""Tools as ``tools.toml`` declares them, before any secret is filled in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pearl.tools.base import Tool

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""Where a value of the environment stands in a text of the file."""

HOLE = re.compile(r"\{([^{}]*)\}")
"""Where a parameter stands in an endpoint's path."""

Scalar: TypeAlias = "str | int | float | bool"


@dataclass(frozen=True, slots=True)
class Http:
    """A service over HTTP.

    Args:
        method: GET sends arguments in the address, POST as a JSON object.
        scheme: ``http`` or ``https``.
        host: its name or address, without brackets, in small letters.
        port: of it.
        path: with the names of parameters in braces.
        query: what the address always has after ``?``.
        static: what every call has, by name; texts may have variables.
        headers: the same.
        ca: a file of certificates to trust in place of the system's; empty for those.
    """

    method: Literal["GET", "POST"]
    scheme: Literal["http", "https"]
    host: str
    port: int
    path: str
    query: str
    static: Mapping[str, Scalar]
    headers: Mapping[str, str]
    ca: str

    @property
    def origin(self) -> str:
        """Scheme, host and port: all that is ever connected to."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"http": 80, "https": 443}[self.scheme] == self.port
        return f"{self.scheme}://{host}{'' if usual else f':{self.port}'}"

    @property
    def holes(self) -> tuple[str, ...]:
        """The names in the path."""
        return tuple(HOLE.findall(self.path))


@dataclass(frozen=True, slots=True)
class Search:
    """A search in an index that ``pearl index`` made.

    Args:
        index: its folder.
        passages: how many a call gives, at most.
    """

    index: Path
    passages: int


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The calculator."""


How: TypeAlias = "Http | Search | Arithmetic"


@dataclass(frozen=True, slots=True)
class Declared:
    """A tool, and how it is carried out.

    Args:
        tool: as whoever uses it sees it.
        how: what it takes.
    """

    tool: Tool
    how: How

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the environment that it needs, once each."""
        return tuple(dict.fromkeys(_variables(self.how)))


def _variables(how: How) -> Iterator[str]:
    if isinstance(how, Http):
        for value in (*how.static.values(), *how.headers.values()):
            if isinstance(value, str):
                yield from VARIABLE.findall(value)


def filled(value: Any, environment: Mapping[str, str]) -> Any:  # noqa: ANN401 - any scalar
    """A value with its variables filled in; other kinds than texts are as they were.

    Args:
        value: a static parameter or a header.
        environment: has every variable.
    """
    if not isinstance(value, str):
        return value
    return VARIABLE.sub(lambda found: environment[found[1]].strip(), value)
