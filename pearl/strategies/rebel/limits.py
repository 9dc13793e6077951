"""How far a question may go, and how far it has gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pearl.llm import Ask, ModelError, Reply, Request


@dataclass(frozen=True, slots=True)
class RebelLimits:
    """Where a question's recursion ends.

    Args:
        depth: sub-questions within each other, at most; 0 splits nothing.
        width: sub-questions of one question, at most.
        calls: calls of the model for the whole question, at most; when they come to an end,
            each question is answered from what it knows. `LOOKUP` is the smallest number with
            which a question can be put to a tool.
        tool_calls: calls of tools for the whole question, at most.
        revisions: how often a reply that does not fit may be mended, a tool's input among them.
    """

    depth: int = 3
    width: int = 5
    calls: int = 80
    tool_calls: int = 16
    revisions: int = 2


TOOLS = 2
"""Tools that one question is put to, at most: the one that is chosen, and one other."""

LOOKUP = 3
"""Calls that it takes to put a question to a tool: to choose it, fill in its input, and read."""

KEPT = LOOKUP + 1
"""Calls that a question needs which has facts: to be put to a tool, and answered from them."""


@dataclass(slots=True)
class Spent:
    """What a question has taken, in all its frames.

    Args:
        limits: what it may take.
        calls: of the model.
        tool_calls: of tools.
        deepest: sub-questions within each other.
    """

    limits: RebelLimits
    calls: int = 0
    tool_calls: int = 0
    deepest: int = 0

    @property
    def left(self) -> int:
        """Calls of the model that may still be made."""
        return self.limits.calls - self.calls

    def has_tool_calls(self) -> bool:
        """Whether a tool may be called."""
        return self.tool_calls < self.limits.tool_calls

    def counted(self, ask: Ask) -> Ask:
        """The same model, whose calls are counted here."""

        async def counting(request: Request) -> Reply:
            if not self.left:
                raise ModelError(
                    "calls",
                    f"The question took its {self.limits.calls} calls and has no answer: allow "
                    "more, or ask less at once.",
                )
            self.calls += 1
            return await ask(request)

        return counting


def least(facts: Sequence[str]) -> int:
    """Calls with which a question can be put to a tool, and still be answered from its facts."""
    return KEPT if facts else LOOKUP


def held_for(left: int, facts: Sequence[str], waiting: int) -> int:
    """Calls that a question holds back while one of its parts is asked.

    They are for itself and for its parts after that one, for as many of them
    as there can be a look-up of: so more calls never mean fewer answered parts.

    Args:
        left: calls that the question may make.
        facts: what it knows.
        waiting: parts after the one that is asked.
    """
    room = max(left - least(facts) - KEPT, 0)
    return KEPT * (1 + min(waiting, room // KEPT))
