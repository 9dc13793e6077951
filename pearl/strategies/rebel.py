"""REBEL: a question is split until a tool, or what is known, answers each part.

Sodani, Moos and Mirman, "LLM Guided Inductive Inference for Solving
Compositional Problems", 2023 (arXiv 2309.11688), section 3, Algorithm 1. One
`Rebel` answers one question; each of its parts is a `Rebel` of its own, which
shares what the run has spent and what it has found. What the model is asked
stands in `pearl.strategies.rebel_calls`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from pearl.lang.ast import Action, Arg, Literal, Ref, Step, Template, listed
from pearl.lang.builtins import Given
from pearl.lang.values import Value, as_text
from pearl.models.base import UNUSABLE
from pearl.models.embeddings import Embed, choose_embedding
from pearl.models.middleware.cache import ReplyCache
from pearl.prompts.calls import FillSchema
from pearl.runtime.binding import Output, SolverError
from pearl.runtime.calls import Caller, Check, SchemaError, counting, fill
from pearl.runtime.executor import Frame, Handlers
from pearl.runtime.fitting import fit_fill
from pearl.runtime.loop import Attempt, Move, Run, RunError, Steps, run_strategy
from pearl.strategies.rebel_calls import (
    NO_TOOL,
    Embedding,
    Part,
    choice_of_tool,
    embedding,
    filled_from,
    flat,
    sift,
    split_of,
    tool_input,
    written_input,
    wrong_input,
)
from pearl.tools.toolbox import (
    DOCUMENT_SEARCH,
    SEARCH,
    WRONG_INPUT,
    Tool,
    ToolReply,
    Tools,
    solver,
)

TOOLS = 2
"""Tools that one question is put to, at most: the one that is chosen, and one other."""

LOOKUP = 3
"""Calls that it takes to put a question to a tool: to choose it, fill in its input, and read."""

GOES_ON = UNUSABLE | {"no-answer", "tool", WRONG_INPUT, "depth"}
"""Reasons for which a step may have no output, and the question goes on without it."""

ANSWER = "answer"
"""The step that has the answer."""

NOTHING = "nothing was found"
"""The answer of a question that a tool replied to, and whose reply has none."""


@dataclass(frozen=True, slots=True)
class RebelLimits:
    """Where a question's recursion ends.

    Args:
        depth: sub-questions within each other, at most; 0 splits nothing.
        width: sub-questions of one question, at most.
        calls: calls of the model for the whole question, at most; when they come to an end,
            each question is answered from memory. With `LOOKUP` and one more a question can be
            put to a tool.
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
        formed: whether a reply of the model's has held an object, as each is to.
    """

    limits: RebelLimits
    calls: int = 0
    tool_calls: int = 0
    deepest: int = 0
    formed: bool = False

    @property
    def remaining(self) -> int:
        """Calls of the model that may still be made."""
        return self.limits.calls - self.calls

    def count(self) -> None:
        """Count a call of the model, before it is made."""
        self.calls += 1


@dataclass(frozen=True, slots=True)
class Fact:
    """A question that a frame of the run has answered.

    Args:
        question: it.
        answer: to it, or `NOTHING`.
        step: the step that has the answer; empty where none has.
        frame: what asked it. In another one the fact is a text, as no reference reaches there.
    """

    question: str
    answer: str
    step: str
    frame: Rebel

    @property
    def line(self) -> str:
        """Both in one line, as the model is shown it."""
        return flat(f"{self.question}: {self.answer}")


def rebel(
    caller: Caller,
    tools: Tools,
    embed: Embed | None = None,
    limits: RebelLimits | None = None,
    replies: ReplyCache | None = None,
) -> Rebel:
    """The strategy of one run, with the library ``rebel`` and the `Rebel.handlers` it needs.

    Its tools are a toolbox, or `document_tools` of the run's document; whoever made it closes it.
    What tells whether two questions are the same is by default `choose_embedding`, and an
    endpoint's vectors are kept among the replies, if those are.

    Raises:
        InputError: the embedding's settings cannot be used.
    """
    limits = limits or RebelLimits()
    return Rebel(caller, tools, embedding(embed or choose_embedding(), replies), Spent(limits))


@dataclass(eq=False)
class Rebel:
    """Answers one question by Algorithm 1, and its sub-questions by the same.

    It is made for one run: `rebel` makes it, and its `handlers` go into the
    run that it is the strategy of.

    Args:
        caller: asks the model and keeps the journal.
        tools: what can be asked beside the model.
        embedding: tells whether two questions are the same.
        spent: what all frames of the run have taken, with their limits.
        findings: what all frames of the run have found.
        above: the questions that this one is a part of, the run's own first.
        facts: what is known at the start: a question and its answer each.
        held: calls that the frames around this one keep for themselves.
        splits: whether the question may be split; one that repeats a question above may not.
    """

    caller: Caller
    tools: Tools
    embedding: Embedding
    spent: Spent
    findings: list[Fact] = field(default_factory=list)
    above: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    held: int = 0
    splits: bool = True
    _run: Run = field(init=False)
    _question: str = field(default="", init=False)
    _parts: deque[Part] = field(default_factory=deque, init=False)
    _tried: list[str] = field(default_factory=list, init=False)
    _recalled: bool = field(default=False, init=False)
    _short: bool = field(default=False, init=False)
    _why: str = field(default="no tool was chosen.", init=False)

    def __post_init__(self) -> None:
        self.limits = self.spent.limits
        # Of what the run has found, this frame knows what was found since it began.
        self._start = len(self.findings)
        self._moves = self._algorithm()

    async def next(self, run: Run) -> Move:
        """The next move of Algorithm 1.

        Raises:
            ModelError: the model gave no usable answer, or no call is left.
            RunError: there is no answer.
        """
        if run.failed:
            # Where the model cannot be reached, an answer from what is left would be another
            # answer the next time.
            if any(failure.reason not in GOES_ON for failure in run.failed.failures):
                raise run.failed
            self._why = str(run.failed)
        if ANSWER in run.values:
            # The plan is to say what it returns.
            return Steps((), returns=(Ref(ANSWER),), last=True)
        self._run = run
        return await anext(self._moves)

    async def _algorithm(self) -> AsyncIterator[Move]:
        """Algorithm 1: split, answer from memory, use tools; each move ends one of its turns.

        When a turn goes on, `_run` is the run after its move; once that has an answer, no turn
        goes on any more.
        """
        self._question = self._run.question
        self.spent.deepest = max(self.spent.deepest, len(self.above))
        smallest = (
            split_of(self._question, self.tools.tools, ()),
            filled_from("rebel_memory", question=self._question),
        )
        for call in () if self.above else smallest:
            # Before the first is asked: what does not fit with nothing found yet never does.
            fit_fill(call, self.caller.window(call))
        for turn in (self._ask_parts, self._recall, self._use_tools):
            async for move in turn():
                yield move
        why = self._why
        if not self._recalled and self._has(1):
            yield Attempt((self._from_memory(),))
        made = f" It made {self.spent.calls} of its {self.limits.calls} calls, and what is next"
        short = f"{made} takes more: allow more." if self._short else ""
        raise RunError(f"There is no answer to “{self._question[:120]}”: {why}{short}")

    # --- the turns ---

    async def _ask_parts(self) -> AsyncIterator[Move]:
        """Ask the sub-questions in turn, as long as there can be a look-up of each."""
        self._parts.extend(await self._split())
        count = 0
        while self._parts:
            if not self._has(2 * self._reserve):
                self._parts.clear()
                return
            part = self._parts.popleft()
            count += 1
            action = "LOOK_UP" if part.again else "SOLVE"
            step = Step(f"sub_{count}", action, (Literal(part.question), self._facts))
            yield Attempt((step,))
            if step.name in self._run.values:
                answer = as_text(self._run.values[step.name])
                self.findings.append(Fact(part.question, answer, step.name, self))

    async def _split(self) -> Sequence[Part]:
        """The sub-questions that are asked."""
        decide = self.caller.journal.decide
        if not self.splits or len(self.above) >= self.limits.depth:
            decide("split", {"sub_questions": [], "ended": "depth" if self.splits else "again"})
            return ()
        if not self._has(1 + 2 * self._reserve):
            return ()
        # Splitting sees which questions are answered, and no answer.
        answered = [fact.question for fact in self.findings if fact.step]
        call = split_of(self._question, self.tools.tools, answered)
        reply = await self._fill_or_none(call, "split", self._reserve)
        written = [part for text in reply["sub_questions"] if (part := flat(text))] if reply else []
        above = (*self.above, self._question)
        embed = self.embedding(self.caller.journal)
        parts, dropped = await sift(written, above, answered, self.limits.width, embed)
        pairs = [list(pair) for pair in dropped]
        decide("split", {"sub_questions": [part.question for part in parts], "dropped": pairs})
        return parts

    async def _recall(self) -> AsyncIterator[Move]:
        """Answer from facts and from what the model knows, where that is enough."""
        facts = self._lines
        # With few calls left, facts are tried at once: the answer says whether they are enough.
        if self._has(1 + self._reserve):
            call = filled_from("rebel_memory", question=self._question, facts=list(facts))
            reply = await self._fill_or_none(call, "memory", self._reserve)
            enough = reply is not None and reply["answerable"] is True
            self.caller.journal.decide("memory", {"answerable": enough, "facts": len(facts)})
            if not enough:
                return
        elif not facts:
            return
        self._recalled = True
        yield Attempt((self._from_memory(),))

    def _from_memory(self) -> Step:
        return Step(ANSWER, "ANSWER_FROM_MEMORY", (Literal(self._question), self._facts))

    async def _use_tools(self) -> AsyncIterator[Move]:
        """Call the tool that is chosen and read its reply; where that fails, one other."""
        while tool := await self._choose():
            self._tried.append(tool.name)
            reply = f"reply_{len(self._tried)}"
            async for move in self._call(tool, reply):
                yield move
            if reply in self._run.values:
                args = (Literal(self._question), Ref(reply), self._facts)
                yield Attempt((Step(ANSWER, "READ_REPLY", args),))
                failures = self._run.failed.failures if self._run.failed else ()
                if failures and failures[0].reason == "no-answer":
                    # That it was looked for in vain is known from here on.
                    self.findings.append(Fact(self._question, NOTHING, "", self))

    async def _choose(self) -> Tool | None:
        """The tool that the question is put to next; None for none."""
        tools = {name: tool for name, tool in self.tools.tools.items() if name not in self._tried}
        if not tools or len(self._tried) == TOOLS or not self._has(self._own + LOOKUP):
            return None
        if self.spent.tool_calls >= self.limits.tool_calls:
            self.caller.journal.decide("limit", {"tool_calls": self.limits.tool_calls})
            return None
        path = f"tool/{len(self._tried) + 1}"
        name: str | None = next(iter(tools))
        # Where all there is is a search for any words, there is nothing to choose.
        if [*tools.values()] not in ([SEARCH], [DOCUMENT_SEARCH]):
            call = choice_of_tool(self._question, tools)
            reply = await self._fill_or_none(call, path, self._own + LOOKUP - 1)
            name = None if reply is None or reply["tool"] == NO_TOOL else str(reply["tool"])
        self.caller.journal.decide(path, {"tool": name})
        return tools[name] if name else None

    async def _call(self, tool: Tool, reply: str) -> AsyncIterator[Move]:
        """Calls of a tool, until it takes its input, or nothing is left to mend of it."""
        refused: list[tuple[Mapping[str, Any], str]] = []
        while len(refused) <= self.limits.revisions and self._has(self._own + 2):
            again = f"/again/{len(refused)}" if refused else ""
            arguments = await self._fill_or_none(
                tool_input(tool, self._question, self._lines, refused),
                f"tool/{len(self._tried)}/input{again}",
                self._own + 1,
                lambda arguments: wrong_input(tool, arguments),
            )
            if arguments is None:
                self._why = f"the tool {tool.name} could not be given its input. {self._why}"
                return
            arguments = {name: value for name, value in arguments.items() if value is not None}
            if any(arguments == earlier for earlier, _ in refused):
                return
            answers = {fact.step: fact.answer for fact in self._learned if fact.frame is self}
            written = written_input(arguments, answers)
            yield Attempt((Step(reply, "CALL_TOOL", (Literal(tool.name), written)),))
            failures = self._run.failed.failures if self._run.failed else ()
            if not failures or failures[0].reason != WRONG_INPUT:
                return
            refused.append((arguments, failures[0].cause))

    # --- what is known ---

    @property
    def _learned(self) -> list[Fact]:
        """What was found since this frame began; what has the same answer is one fact."""
        answered = {fact.question for fact in self.findings if fact.step}
        asked: dict[str, dict[str, None]] = {}
        last: dict[str, Fact] = {}
        for fact in self.findings[self._start :]:
            if fact.step or fact.question not in answered:
                asked.setdefault(fact.answer, {})[fact.question] = None
                last[fact.answer] = fact
        return [replace(fact, question=" ".join(asked[answer])) for answer, fact in last.items()]

    @property
    def _lines(self) -> list[str]:
        """The facts, a line each."""
        return [*self.facts, *(fact.line for fact in self._learned)]

    @property
    def _facts(self) -> Arg:
        """The facts as an argument of a step."""
        return listed(
            [Literal(line) for line in self.facts]
            + [
                Template((f"{fact.question}: ", Ref(fact.step)))
                if fact.frame is self and fact.step
                else Literal(fact.line)
                for fact in self._learned
            ]
        )

    # --- calls of the model ---

    @property
    def _left(self) -> int:
        """Calls that this question may make."""
        return self.spent.remaining - self.held

    @property
    def _reserve(self) -> int:
        """Calls that a question needs: to be put to a tool, where there is one, and, where that
        fails, answered from memory."""
        return (LOOKUP if self.tools.tools else 0) + 1

    @property
    def _own(self) -> int:
        """Calls that this question keeps so that it can be answered from memory."""
        return 0 if self._recalled else 1

    def _has(self, calls: int) -> bool:
        """Whether this question may make so many calls; the journal says where it may not."""
        if self._left >= calls:
            return True
        self._short = True
        self.caller.journal.decide("limit", {"calls": self.limits.calls})
        return False

    async def _fill(
        self, call: FillSchema, path: str, keep: int, check: Check = lambda _: ()
    ) -> dict[str, Any]:
        """Ask the model; what is mended leaves so many calls for what comes after."""
        counted = replace(self.caller, ask=counting(self.caller.ask, self.spent.count))
        revisions = max(min(self.limits.revisions, self._left - keep - 1), 0)
        reply = await fill(counted, call, path, check, revisions)
        self.spent.formed = True
        return reply

    async def _fill_or_none(
        self, call: FillSchema, path: str, keep: int, check: Check = lambda _: ()
    ) -> dict[str, Any] | None:
        """An object, or None where the model gives none that fits: the question goes on without.

        Raises:
            SchemaError: the model was asked as often as a reply may be mended, and has not written
                one object in the whole run: it never will.
        """
        try:
            return await self._fill(call, path, keep, check)
        except SchemaError as error:
            if error.formless > self.limits.revisions and not self.spent.formed:
                raise
            self.spent.formed |= not error.formless
            self._why = str(error)
            self.caller.journal.decide(f"{path}/given_up", list(error.problems))
            return None

    # --- what carries out the steps ---

    @property
    def handlers(self) -> Handlers:
        """Who carries out the actions of the library ``rebel`` in this frame."""
        solvers = {"tool": self._call_tool, "read": self._read, "answer": self._answer}
        return Handlers(MappingProxyType(solvers), self._solve, self.limits.depth)

    async def _solve(
        self, action: Action, args: Sequence[tuple[str, Given]], frame: Frame
    ) -> Output:
        """Carry out ``SOLVE``, or ``LOOK_UP``: the same for a sub-question, knowing the facts."""
        question, facts = (argument.value for _, argument in args)
        # A question holds calls back for itself and for its parts after the one that is asked,
        # for as many of them as there can be a look-up of: so more calls never mean fewer
        # answered parts.
        room = max(self._left - 2 * self._reserve, 0)
        held = self._reserve * (1 + min(len(self._parts), room // self._reserve))
        inner = replace(
            self,
            caller=frame.caller,
            above=(*self.above, self._question),
            facts=tuple(_lines(facts)),
            held=self.held + held,
            splits=action.name == "SOLVE",
        )
        try:
            frame = replace(frame, handlers=inner.handlers)
            finished = await run_strategy(inner, as_text(question), frame)
        except RunError as error:
            reason = error.failures[0].reason if error.failures else "no-answer"
            raise SolverError(reason, str(error)) from None
        return Output(finished.text)

    async def _call_tool(self, path: str, args: Sequence[Given]) -> Value:
        if self.spent.tool_calls >= self.limits.tool_calls:
            raise SolverError("tool", f"The {self.limits.tool_calls} calls of tools are used up.")
        self.spent.tool_calls += 1

        def note(path: str, reply: ToolReply) -> None:
            if reply.cut:
                self.caller.journal.decide(f"{path}/cut", {"characters": reply.cut})

        return await solver(self.tools, note)(path, args)

    async def _read(self, path: str, args: Sequence[Given]) -> Value:
        question, reply, facts = (argument.value for argument in args)
        # Facts name what the question only describes, and a reply may say more than it asks for.
        extra: dict[str, Value] = {"facts": list(lines)} if (lines := _lines(facts)) else {}
        if self.above:
            extra["whole_question"] = self.above[0]
        call = filled_from("rebel_read", question=as_text(question), **extra, reply=as_text(reply))
        otherwise = "The tool's reply does not answer the question."
        return await self._answered(call, path, self._own, otherwise)

    async def _answer(self, path: str, args: Sequence[Given]) -> Value:
        question, facts = (argument.value for argument in args)
        call = filled_from("rebel_answer", question=as_text(question), facts=list(_lines(facts)))
        # Where memory does not answer it and a tool is left, there is to be a look-up still.
        keep = LOOKUP if len(self._tried) < TOOLS else 0
        return await self._answered(call, path, keep, "What is known does not answer the question.")

    async def _answered(self, call: FillSchema, path: str, keep: int, otherwise: str) -> str:
        """The answer of a reply that has a field for it.

        Raises:
            SchemaError: no reply fits.
            SolverError: the reply has none.
        """
        answer = (await self._fill(call, path, keep))["answer"]
        if not isinstance(answer, str) or not flat(answer):
            raise SolverError("no-answer", otherwise)
        return flat(answer)


def _lines(facts: Value) -> list[str]:
    """A list of facts, as a step gives it, a line each."""
    return [flat(as_text(fact)) for fact in facts] if isinstance(facts, list) else []
