"""How far a question has come with one tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pearl.tools import Tool


@dataclass(slots=True)
class Try:
    """A question that is put to a tool.

    Args:
        number: which of the question's tools it is, from 1.
        tool: the one that was chosen.
        refused: inputs that it did not take, each with what is wrong.
        replied: whether there is a reply.
        over: whether nothing more is asked of it.
    """

    number: int
    tool: Tool
    refused: list[tuple[Mapping[str, Any], str]] = field(default_factory=list)
    replied: bool = False
    over: bool = False

    @property
    def reply(self) -> str:
        """The step that has its reply."""
        return f"reply_{self.number}"

    @property
    def path(self) -> str:
        """Where its input is asked for."""
        again = f"/again/{len(self.refused)}" if self.refused else ""
        return f"tool/{self.number}/input{again}"

    def has_refused(self, given: Mapping[str, Any]) -> bool:
        """Whether it is an input that it did not take."""
        return any(dict(given) == dict(one) for one, _ in self.refused)
