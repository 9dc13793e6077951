"""How far a question may go, and how far it has gone."""

from __future__ import annotations

from dataclasses import dataclass

from pearl.llm import Ask, ModelError, Reply, Request


@dataclass(frozen=True, slots=True)
class RebelLimits:
    """Where a question's recursion ends.

    Args:
        depth: sub-questions within each other, at most; 0 splits nothing.
        width: sub-questions of one question, at most.
        calls: calls of the model for the whole question, at most; when they come to an end,
            each question is answered from what it knows.
        tool_calls: calls of tools for the whole question, at most.
        revisions: how often a reply that does not fit may be mended, a tool's input among them.
    """

    depth: int = 3
    width: int = 5
    calls: int = 80
    tool_calls: int = 16
    revisions: int = 2


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

    def has_calls(self, frames: int) -> bool:
        """Whether there is a call left beside those in which each open frame answers."""
        return self.calls + frames < self.limits.calls

    def has_tool_calls(self) -> bool:
        """Whether a tool may be called."""
        return self.tool_calls < self.limits.tool_calls

    def counted(self, ask: Ask) -> Ask:
        """The same model, whose calls are counted here."""

        async def counting(request: Request) -> Reply:
            if self.calls >= self.limits.calls:
                raise ModelError(
                    "calls",
                    f"The question took its {self.limits.calls} calls and has no answer: allow "
                    "more, or ask less at once.",
                )
            self.calls += 1
            return await ask(request)

        return counting
