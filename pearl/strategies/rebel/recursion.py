"""REBEL: a question is split until a tool, or what is known, answers each part.

Sodani, Moos and Mirman, "LLM Guided Inductive Inference for Solving
Compositional Problems", 2023 (arXiv 2309.11688), section 3, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from pearl.builtins import Given
from pearl.embedding import Embed, choose_embedding
from pearl.plan import Action, Arg, Literal, Ref, Step, Template
from pearl.runtime import Attempt, Caller, Return, Run, RunError, SchemaError, Steps
from pearl.runtime.handlers import Frame, Handlers, SolverError
from pearl.runtime.loop import Move, run_in_frame
from pearl.strategies.rebel.asking import Asking, line
from pearl.strategies.rebel.limits import RebelLimits, Spent
from pearl.strategies.rebel.sifting import sifted
from pearl.strategies.rebel.tools import Tools, listed, written_input
from pearl.tools import Tool, ToolError
from pearl.tools.solving import arguments_of
from pearl.values import Value, as_text

LIBRARY = "rebel"
"""The action library that a run needs."""

TOOLS = 2
"""Tools that one question is put to, at most: the one that is chosen, and one other."""

GOES_ON = frozenset({"no-answer", "tool", "reply", "depth"})
"""Reasons for which a step may have no output, and the question goes on without it."""

ANSWER = "answer"


@dataclass(eq=False)
class Rebel:
    """Answers one question by Algorithm 1, and its sub-questions by the same.

    It is made for one run: `rebel` makes it, and its `handlers` go into the
    run that it is the strategy of.

    Args:
        caller: asks the model and keeps the journal.
        tools: what can be asked beside the model.
        embed: tells whether two questions are the same.
        limits: where it ends.
        spent: what all frames of the run have taken.
        above: the questions that this one is a part of, the run's own first.
        facts: what is known at the start: a question and its answer each.
        answered: the questions of all facts, those of sub-questions as they come.
    """

    caller: Caller
    tools: Tools
    embed: Embed
    limits: RebelLimits
    spent: Spent
    above: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    answered: list[str] = field(default_factory=list)
    _question: str = field(default="", init=False)
    _moves: AsyncGenerator[Move, Run] | None = field(default=None, init=False)

    @property
    def handlers(self) -> Handlers:
        """Who carries out the actions of the library ``rebel`` in this frame."""
        solvers = {"tool": self._call_tool, "read": self._read, "answer": self._answer}
        return Handlers(MappingProxyType(solvers), self._solve, self.limits.depth)

    async def next(self, run: Run) -> Move:
        """The next move of Algorithm 1.

        Raises:
            ModelError: the model gave no usable answer, or no call is left.
            RunError: there is no answer.
        """
        if self._moves is not None:
            return await self._moves.asend(run)
        self._question = run.question
        self.spent.deepest = max(self.spent.deepest, len(self.above))
        self._moves = self._algorithm(run)
        return await anext(self._moves)

    async def _algorithm(self, run: Run) -> AsyncGenerator[Move, Run]:
        """Split, ask each part, look into memory, else choose a tool and use it."""
        question, facts = run.question, list(self.facts)
        shown: list[Arg] = [Literal(one) for one in self.facts]
        parts: list[str] = []
        why = "no tool was chosen."
        for number, part in enumerate(await self._parts(question), 1):
            if not self._has_calls():
                break
            step = _solve_step(f"sub_{number}", part, shown)
            run = _going_on((yield Attempt((step,))))
            if run.failed is None:
                facts.append(f"{part}: {as_text(run.values[step.name])}")
                shown.append(Template((f"{part}: ", Ref(step.name))))
                self.answered.append(part)
                parts.append(step.name)
            else:
                why = str(run.failed)
        ending = _answer_step(question, shown)
        from_facts = await self._knows(question, facts)
        if from_facts:
            run = _going_on((yield Attempt((ending,))))
        left = dict(self.tools.tools)
        for number in range(1, TOOLS + 1):
            if ANSWER in run.values:
                break
            name = await self._chosen(left, f"tool/{number}")
            if name is None:
                break
            path = f"tool/{number}/input"
            given = await self._asking.input(left.pop(name), question, facts, path)
            if given is None:
                why = f"the tool {name} could not be given its input."
                continue
            reply = f"reply_{number}"
            known = {one: as_text(value) for one, value in run.values.items() if one in parts}
            call = Step(reply, "CALL_TOOL", (Literal(name), written_input(given, known)))
            run = _going_on((yield Attempt((call,))))
            if run.failed is None:
                read = Step(ANSWER, "READ_REPLY", (Literal(question), Ref(reply), listed(shown)))
                run = _going_on((yield Attempt((read,))))
            why = str(run.failed)
        if ANSWER in run.values:
            yield Steps((), (), (Ref(ANSWER),))
        elif facts and not from_facts:
            yield Steps((ending,), (), (Ref(ANSWER),))
        else:
            raise RunError(f"There is no answer to “{question[:120]}”: {why}")
        yield Return((ANSWER,))

    @property
    def _asking(self) -> Asking:
        counted = replace(self.caller, ask=self.spent.counted(self.caller.ask))
        return Asking(counted, self.limits.revisions)

    def _has_calls(self) -> bool:
        """Whether a call is left to decide with; the journal says where none is."""
        if self.spent.has_calls(len(self.above) + 1):
            return True
        self.caller.journal.decide("limit", {"calls": self.limits.calls})
        return False

    async def _parts(self, question: str) -> list[str]:
        """The sub-questions that are asked."""
        decide = self.caller.journal.decide
        if len(self.above) >= self.limits.depth:
            decide("split", {"sub_questions": [], "ended": "depth"})
            return []
        if not self._has_calls():
            return []
        found = await self._asking.split(question, self.answered)
        parts = await sifted(
            found, (*self.above, question), self.answered, self.limits.width, self.embed
        )
        dropped = [[one.question, one.why] for one in parts.dropped]
        decide("split", {"sub_questions": list(parts.kept), "dropped": dropped})
        return list(parts.kept)

    async def _knows(self, question: str, facts: Sequence[str]) -> bool:
        """Whether what is known answers the question."""
        if not facts or not self._has_calls():
            return False
        found = await self._asking.answerable(question, facts)
        self.caller.journal.decide("memory", {"answerable": found, "facts": len(facts)})
        return found

    async def _chosen(self, left: Mapping[str, Tool], path: str) -> str | None:
        """The tool that the question is put to next; None for none."""
        if not left or not self._has_calls():
            return None
        if not self.spent.has_tool_calls():
            self.caller.journal.decide("limit", {"tool_calls": self.limits.tool_calls})
            return None
        name = await self._asking.choose(self._question, left, path)
        self.caller.journal.decide(path, {"tool": name})
        return name

    async def _solve(
        self, action: Action, given: Sequence[tuple[str, Given]], frame: Frame
    ) -> Value:
        """Carry out ``SOLVE``: the same for a sub-question, knowing what is known by now."""
        del action
        question, facts = (one.value for _, one in given)
        inner = Rebel(
            frame.caller,
            self.tools,
            self.embed,
            self.limits,
            self.spent,
            (*self.above, self._question),
            tuple(map(as_text, facts if isinstance(facts, list) else [])),
            list(self.answered),
        )
        try:
            finished = await run_in_frame(
                inner, as_text(question), replace(frame, handlers=inner.handlers)
            )
        except RunError as error:
            reason = error.failures[0].reason if error.failures else "no-answer"
            raise SolverError(reason, str(error)) from None
        return finished.text

    async def _call_tool(self, path: str, given: Sequence[Given]) -> Value:
        name, pairs = (one.value for one in given)
        if not self.spent.has_tool_calls():
            raise SolverError("tool", f"The {self.limits.tool_calls} calls of tools are used up.")
        self.spent.tool_calls += 1
        try:
            reply = await self.tools.call(as_text(name), arguments_of(pairs))
        except ToolError as error:
            raise SolverError("tool", str(error)) from None
        if reply.cut:
            self.caller.journal.decide(f"{path}/cut", {"characters": reply.cut})
        return reply.text

    async def _read(self, path: str, given: Sequence[Given]) -> Value:
        question, reply = (as_text(one.value) for one in given[:2])
        try:
            found = await self._asking.read(question, reply, _facts(given[2]), path)
        except SchemaError as error:
            raise SolverError("reply", str(error)) from None
        return _found(found, "The tool's reply does not answer the question.")

    async def _answer(self, path: str, given: Sequence[Given]) -> Value:
        question, facts = given
        try:
            found = await self._asking.answer(as_text(question.value), _facts(facts), path)
        except SchemaError as error:
            raise SolverError("reply", str(error)) from None
        return _found(found, "What is known does not answer the question.")


def rebel(
    caller: Caller,
    tools: Tools,
    embed: Embed | None = None,
    limits: RebelLimits | None = None,
) -> Rebel:
    """The strategy of one run, with the library ``rebel`` and the `Rebel.handlers` it needs.

    Args:
        caller: asks the model; the one that the run is started with.
        tools: a toolbox, or `document_tools` of the run's document. Whoever made it closes it.
        embed: tells whether two questions are the same; by default `choose_embedding`.
        limits: where it ends.

    Raises:
        InputError: no embedding is given, and the one of the environment cannot be used.
    """
    limits = limits or RebelLimits()
    return Rebel(caller, tools, embed or choose_embedding(), limits, Spent(limits))


def _solve_step(name: str, question: str, facts: Sequence[Arg]) -> Step:
    return Step(name, "SOLVE", (Literal(question), listed(facts)))


def _answer_step(question: str, facts: Sequence[Arg]) -> Step:
    return Step(ANSWER, "ANSWER_FROM_FACTS", (Literal(question), listed(facts)))


def _facts(given: Given) -> list[str]:
    return [line(as_text(one)) for one in given.value] if isinstance(given.value, list) else []


def _found(answer: str | None, otherwise: str) -> str:
    if answer is None:
        raise SolverError("no-answer", otherwise)
    return answer


def _going_on(run: Run) -> Run:
    """A run in which what was tried last succeeded, or failed in a way that ends nothing.

    Where the model cannot be reached, an answer from what is left would be
    another answer the next time.
    """
    if run.failed and any(one.reason not in GOES_ON for one in run.failed.failures):
        raise run.failed
    return run
