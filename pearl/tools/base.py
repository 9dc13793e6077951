"""What a tool is, what it answers, and how it fails."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

LONGEST = 15_000
"""Characters of a reply that a prompt holds (REBEL cuts replies there); the rest is counted."""

Reason: TypeAlias = Literal[
    "input", "host", "address", "redirect", "size", "time", "status", "network", "reply", "budget"
]


class ToolError(Exception):
    """A call that came to nothing.

    Args:
        reason: ``input`` (arguments that do not fit, which may be mended), ``host`` (sent on to
            a host that is not declared), ``address`` (a private one), ``redirect``, ``size``,
            ``time``, ``status`` (an error of the server's), ``network``, ``reply`` (it cannot be
            read) or ``budget`` (no call is left).
        message: one line, without secrets and without words of the server's.
    """

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a model fills in.

    Args:
        name: as the tool knows it.
        about: what it is, for a model and a person.
        schema: the JSON schema of its values, as JSON.
        required: whether a call must have it.
    """

    name: str
    about: str
    schema: str
    required: bool = True


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a tool may go.

    Args:
        seconds: of one call, with every redirect.
        bytes: of one reply, unpacked.
        calls: for one question.
        private: whether it may be on this machine or in a private network.
    """

    seconds: float = 10.0
    bytes: int = 1_000_000
    calls: int = 20
    private: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool, as whoever uses it sees it.

    Args:
        name: of small letters, digits and ``_``.
        about: what it does, in one line.
        parameters: what a call fills in.
        limits: how far it may go.
    """

    name: str
    about: str
    parameters: tuple[Parameter, ...] = ()
    limits: Limits = Limits()

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON schema of a call's arguments; no others are taken."""
        return {
            "type": "object",
            "properties": {
                one.name: {"description": one.about, **json.loads(one.schema)}
                for one in self.parameters
            },
            "required": [one.name for one in self.parameters if one.required],
            "additionalProperties": False,
        }


@dataclass(frozen=True, slots=True)
class ToolReply:
    """What a tool answered: data, whatever it says.

    Args:
        text: its first `LONGEST` characters, without secrets.
        cut: characters left out after them.
    """

    text: str
    cut: int = 0


class Tools(Protocol):
    """What can be asked beside the model: a toolbox, as far as a run uses it."""

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Those that may be called, by name; there are no others."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolReply:
        """Ask one of them.

        Raises:
            ToolError: it came to nothing.
        """
        ...


class Service(Protocol):
    """What carries out a tool's calls."""

    async def answer(self, arguments: Mapping[str, Any]) -> str:
        """The reply's whole text.

        Args:
            arguments: they fit the tool's parameters.

        Raises:
            ToolError: it came to nothing.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
