"""What one question asks of the model and of tools, within the calls that are its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from pearl.builtins import Given
from pearl.runtime import Caller, SchemaError
from pearl.runtime.handlers import Solve, SolverError
from pearl.strategies.rebel.asking import Asking, line
from pearl.strategies.rebel.limits import LOOKUP, TOOLS, RebelLimits, Spent
from pearl.strategies.rebel.memory import Known
from pearl.strategies.rebel.tries import Try
from pearl.tools import ToolReply, Tools, solver
from pearl.values import Value, as_text


@dataclass(slots=True)
class Desk:
    """A question's calls, and the solvers that its steps need.

    Args:
        caller: asks the model and keeps the journal.
        tools: what can be asked beside the model.
        limits: where it ends.
        spent: what all frames of the run have taken.
        known: what the question's frame knows.
        held: calls that the frames around it keep for themselves.
        tries: the tools it was put to.
        told: whether it was answered from facts, or tried to be.
        short: whether something was left out for want of calls.
    """

    caller: Caller
    tools: Tools
    limits: RebelLimits
    spent: Spent
    known: Known
    held: int = 0
    tries: list[Try] = field(default_factory=list)
    told: bool = False
    short: bool = False

    @property
    def solvers(self) -> Mapping[str, Solve]:
        """By the name that the library's actions give."""
        solvers = {"tool": self._call_tool, "read": self._read, "answer": self._answer}
        return MappingProxyType(solvers)

    @property
    def own(self) -> int:
        """Calls that this question keeps so that facts can answer it."""
        return 1 if self.known.facts and not self.told else 0

    @property
    def left(self) -> int:
        """Calls that this question may make."""
        return self.spent.left - self.held

    def has(self, calls: int) -> bool:
        """Whether this question may make so many calls; the journal says where it may not."""
        if self.left >= calls:
            return True
        self.short = True
        self.caller.journal.decide("limit", {"calls": self.limits.calls})
        return False

    def asking(self, keep: int) -> Asking:
        """Asks the model; what is mended leaves so many calls for what comes after."""
        counted = replace(self.caller, ask=self.spent.counted(self.caller.ask))
        revisions = max(min(self.limits.revisions, self.left - keep - 1), 0)
        return Asking(counted, revisions)

    async def _call_tool(self, path: str, given: Sequence[Given]) -> Value:
        if not self.spent.has_tool_calls():
            raise SolverError("tool", f"The {self.limits.tool_calls} calls of tools are used up.")
        self.spent.tool_calls += 1
        return await solver(self.tools, self._note_cut)(path, given)

    def _note_cut(self, path: str, reply: ToolReply) -> None:
        if reply.cut:
            self.caller.journal.decide(f"{path}/cut", {"characters": reply.cut})

    async def _read(self, path: str, given: Sequence[Given]) -> Value:
        question, reply = (as_text(one.value) for one in given[:2])
        try:
            asking = self.asking(self.own)
            found = await asking.read(question, reply, facts_of(given[2].value), path)
        except SchemaError as error:
            raise SolverError("reply", str(error)) from None
        return _found(found, "The tool's reply does not answer the question.")

    async def _answer(self, path: str, given: Sequence[Given]) -> Value:
        question, facts = given
        # Where facts do not answer it and a tool is left, there is to be a look-up still.
        keep = LOOKUP if len(self.tries) < TOOLS else 0
        try:
            asking = self.asking(keep)
            found = await asking.answer(as_text(question.value), facts_of(facts.value), path)
        except SchemaError as error:
            raise SolverError("reply", str(error)) from None
        return _found(found, "What is known does not answer the question.")


def facts_of(value: Value) -> list[str]:
    """A list of facts, as a step gives it, a line each."""
    return [line(as_text(one)) for one in value] if isinstance(value, list) else []


def _found(answer: str | None, otherwise: str) -> str:
    if answer is None:
        raise SolverError("no-answer", otherwise)
    return answer
