"""REBEL: a question is split until a tool, or what is known, answers each part.

Sodani, Moos and Mirman, "LLM Guided Inductive Inference for Solving
Compositional Problems", 2023 (arXiv 2309.11688), section 3, Algorithm 1. One
`Rebel` answers one question; each sub-question has a `Rebel` of its own (a
frame), which shares the run's limits and findings. The calls of the model are
in `pearl.strategies.rebel_calls`.
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
from pearl.runtime.binding import Output, StepError
from pearl.runtime.calls import Caller, Check, SchemaError, counting, fill
from pearl.runtime.executor import Frame, Handlers
from pearl.runtime.fit_to_window import fit_fill
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
"""The most tools that one question is put to: the one chosen first, and one other."""

LOOKUP = 3
"""Calls of the model that a look-up takes: choose a tool, fill in its input, read its reply."""

GOES_ON = UNUSABLE | {"no-answer", "tool", WRONG_INPUT, "depth"}
"""Reasons of failure after which the question goes on without the step's output."""

ANSWER = "answer"
"""The name of the step that gives the answer."""

NOTHING = "nothing was found"
"""Stands for the answer where a tool replied, but its reply does not answer the question."""


@dataclass(frozen=True, slots=True)
class RebelLimits:
    """Where the recursion of a run's question ends.

    Args:
        depth: how deep sub-questions may nest; 0 splits nothing.
        width: the most sub-questions of one question.
        calls: the most calls of the model in the run. When they run out, questions are answered
            from memory. A look-up needs `LOOKUP` calls and one in reserve.
        tool_calls: the most calls of tools in the run.
        revisions: how often the model may revise a reply that does not fit, or a tool's input.
    """

    depth: int = 3
    width: int = 5
    calls: int = 80
    tool_calls: int = 16
    revisions: int = 2


@dataclass(slots=True)
class Spent:
    """What a run has used so far, in all its frames.

    Args:
        limits: the run's limits.
        calls: how many calls of the model were made.
        tool_calls: how many calls of tools were made.
        deepest: how deep sub-questions have nested.
        formed: whether any reply of the model's held a JSON object, as each should.
    """

    limits: RebelLimits
    calls: int = 0
    tool_calls: int = 0
    deepest: int = 0
    formed: bool = False

    def count(self) -> None:
        """Count a call of the model, before it is made."""
        self.calls += 1


@dataclass(frozen=True, slots=True)
class Fact:
    """A question that a frame of the run has answered.

    Args:
        question: the question.
        answer: its answer, or `NOTHING`.
        step: the step that has the answer; empty where none has.
        frame: the frame that asked it. Other frames write the answer as a text, as they cannot
            refer to its step.
    """

    question: str
    answer: str
    step: str
    frame: Rebel

    @property
    def line(self) -> str:
        """Question and answer in one line, as the model is shown them."""
        return flat(f"{self.question}: {self.answer}")


def rebel(
    caller: Caller,
    tools: Tools,
    embed: Embed | None = None,
    limits: RebelLimits | None = None,
    replies: ReplyCache | None = None,
) -> Rebel:
    """Make the strategy of one run, which needs the library ``rebel`` and `Rebel.handlers`.

    Args:
        caller: asks the model and writes the journal.
        tools: a toolbox, which its opener closes, or `document_tools` of the run's document.
        embed: tells whether two questions are the same; by default `choose_embedding`.
        limits: where the recursion ends.
        replies: where an endpoint's vectors are cached; None for nowhere.

    Raises:
        InputError: the embedding's settings cannot be used.
    """
    limits = limits or RebelLimits()
    return Rebel(caller, tools, embedding(embed or choose_embedding(), replies), Spent(limits))


@dataclass(eq=False)
class Rebel:
    """Answers one question by Algorithm 1, and each sub-question by another `Rebel`.

    `rebel` makes the first one of a run; the run needs its `handlers`.

    Args:
        caller: asks the model and writes the journal.
        tools: the tools that may be called.
        embedding: tells whether two questions are the same.
        spent: what all frames of the run have used, and the run's limits.
        findings: what all frames of the run have found.
        above: the questions that this one is a part of, the run's own first.
        facts: what is known at the start, each a question and its answer.
        held: calls that the frames around this one reserve for themselves.
        splits: whether the question may be split; False where it repeats one of ``above``.
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
        # This frame uses only what the run found since the frame began.
        self._start = len(self.findings)
        self._moves = self._algorithm()

    async def next(self, run: Run) -> Move:
        """The next move of Algorithm 1; a `ModelError` also where no call is left."""
        if run.failed:
            # If the model cannot be reached now, going on would give an answer that differs from
            # the next run's.
            if any(failure.reason not in GOES_ON for failure in run.failed.failures):
                raise run.failed
            self._why = str(run.failed)
        if ANSWER in run.values:
            # The plan's last line names the step that it returns.
            return Steps((), returns=(Ref(ANSWER),), last=True)
        self._run = run
        return await anext(self._moves)

    async def _algorithm(self) -> AsyncIterator[Move]:
        """The moves of Algorithm 1, in three stages: split, answer from memory, use tools.

        After each move, `_run` is the run with the move's result. Once it has an answer, no more
        moves are asked for.
        """
        self._question = self._run.question
        self.spent.deepest = max(self.spent.deepest, len(self.above))
        smallest = (
            split_of(self._question, self.tools.tools, ()),
            filled_from("rebel_memory", question=self._question),
        )
        for call in () if self.above else smallest:
            # A call that does not fit the window with nothing found yet never will.
            fit_fill(call, self.caller.window(call))
        for stage in (self._ask_parts, self._recall, self._use_tools):
            async for move in stage():
                yield move
        why = self._why
        if not self._recalled and self._has(1):
            yield Attempt((self._from_memory(),))
        made = f" It made {self.spent.calls} of its {self.limits.calls} calls, and what is next"
        short = f"{made} takes more: allow more." if self._short else ""
        raise RunError(f"There is no answer to “{self._question[:120]}”: {why}{short}")

    # --- the stages ---

    async def _ask_parts(self) -> AsyncIterator[Move]:
        """Ask the sub-questions one by one, while enough calls are left to look each of them up."""
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
        """Have the question split, and choose the sub-questions to ask."""
        decide = self.caller.journal.decide
        if not self.splits or len(self.above) >= self.limits.depth:
            decide("split", {"sub_questions": [], "ended": "depth" if self.splits else "again"})
            return ()
        if not self._has(1 + 2 * self._reserve):
            return ()
        # The model that splits sees which questions are answered, but not their answers.
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
        """Answer from facts and the model's own knowledge, where the model finds them enough."""
        facts = self._lines
        # With few calls left, no call is spent on asking whether the facts are enough.
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
        """Call the tool that is chosen, and read its reply; try one other where that fails."""
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
                    # Later questions are told that this one was looked up in vain.
                    self.findings.append(Fact(self._question, NOTHING, "", self))

    async def _choose(self) -> Tool | None:
        """The tool to call next; None where no tool, or no call of one, is left."""
        tools = {name: tool for name, tool in self.tools.tools.items() if name not in self._tried}
        if not tools or len(self._tried) == TOOLS or not self._has(self._own + LOOKUP):
            return None
        if self.spent.tool_calls >= self.limits.tool_calls:
            self.caller.journal.decide("limit", {"tool_calls": self.limits.tool_calls})
            return None
        path = f"tool/{len(self._tried) + 1}"
        name: str | None = next(iter(tools))
        # If the only tool is a general search, the model need not choose.
        if [*tools.values()] not in ([SEARCH], [DOCUMENT_SEARCH]):
            call = choice_of_tool(self._question, tools)
            reply = await self._fill_or_none(call, path, self._own + LOOKUP - 1)
            name = None if reply is None or reply["tool"] == NO_TOOL else str(reply["tool"])
        self.caller.journal.decide(path, {"tool": name})
        return tools[name] if name else None

    async def _call(self, tool: Tool, reply: str) -> AsyncIterator[Move]:
        """Call a tool, and have its input revised while the tool refuses it."""
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
        """What was found since this frame began; questions with the same answer are one fact."""
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
        """How many calls of the model this question may still make."""
        return self.limits.calls - self.spent.calls - self.held

    @property
    def _reserve(self) -> int:
        """Calls reserved for a question: for a look-up, where there is a tool, and for an answer
        from memory if that fails."""
        return (LOOKUP if self.tools.tools else 0) + 1

    @property
    def _own(self) -> int:
        """Calls reserved for answering this question from memory: 1, or 0 once that was done."""
        return 0 if self._recalled else 1

    def _has(self, calls: int) -> bool:
        """Whether this question may make so many calls; the journal records where it may not."""
        if self._left >= calls:
            return True
        self._short = True
        self.caller.journal.decide("limit", {"calls": self.limits.calls})
        return False

    async def _fill(
        self, call: FillSchema, path: str, keep: int, check: Check = lambda _: ()
    ) -> dict[str, Any]:
        """Ask the model, with as many revisions as leave ``keep`` calls for what follows."""
        counted = replace(self.caller, ask=counting(self.caller.ask, self.spent.count))
        revisions = max(min(self.limits.revisions, self._left - keep - 1), 0)
        reply = await fill(counted, call, path, check, revisions)
        self.spent.formed = True
        return reply

    async def _fill_or_none(
        self, call: FillSchema, path: str, keep: int, check: Check = lambda _: ()
    ) -> dict[str, Any] | None:
        """Ask the model; None where no reply fits, as the question can go on without one.

        A `SchemaError` where all revisions are used up, and the model has not written a single JSON
        object in the whole run, so that it is not expected to.
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
        """What carries out the actions of the library ``rebel`` in this frame."""
        solvers = {"tool": self._call_tool, "read": self._read, "answer": self._answer}
        return Handlers(MappingProxyType(solvers), self._solve, self.limits.depth)

    async def _solve(
        self, action: Action, args: Sequence[tuple[str, Given]], frame: Frame
    ) -> Output:
        """Carry out ``SOLVE`` or ``LOOK_UP``: a frame of its own answers the sub-question."""
        question, facts = (argument.value for _, argument in args)
        # This frame reserves calls for itself and for those of its remaining parts that could
        # still be looked up, so that a higher limit of calls never answers fewer parts.
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
            raise StepError(reason, str(error)) from None
        return Output(finished.text)

    async def _call_tool(self, path: str, args: Sequence[Given]) -> Value:
        if self.spent.tool_calls >= self.limits.tool_calls:
            raise StepError("tool", f"The {self.limits.tool_calls} calls of tools are used up.")
        self.spent.tool_calls += 1

        def note(path: str, reply: ToolReply) -> None:
            if reply.cut:
                self.caller.journal.decide(f"{path}/cut", {"characters": reply.cut})

        return await solver(self.tools, note)(path, args)

    async def _read(self, path: str, args: Sequence[Given]) -> Value:
        question, reply, facts = (argument.value for argument in args)
        # Facts name what the question only describes; the whole question tells which part of a
        # long reply matters.
        extra: dict[str, Value] = {"facts": list(lines)} if (lines := _lines(facts)) else {}
        if self.above:
            extra["whole_question"] = self.above[0]
        call = filled_from("rebel_read", question=as_text(question), **extra, reply=as_text(reply))
        otherwise = "The tool's reply does not answer the question."
        return await self._answered(call, path, self._own, otherwise)

    async def _answer(self, path: str, args: Sequence[Given]) -> Value:
        question, facts = (argument.value for argument in args)
        call = filled_from("rebel_answer", question=as_text(question), facts=list(_lines(facts)))
        # If memory does not answer it and a tool is left, a look-up must still be possible.
        keep = LOOKUP if len(self._tried) < TOOLS else 0
        return await self._answered(call, path, keep, "What is known does not answer the question.")

    async def _answered(self, call: FillSchema, path: str, keep: int, otherwise: str) -> str:
        """Ask the model, and give its reply's field ``answer``; a `StepError` with the message
        ``otherwise`` where that is empty."""
        answer = (await self._fill(call, path, keep))["answer"]
        if not isinstance(answer, str) or not flat(answer):
            raise StepError("no-answer", otherwise)
        return flat(answer)


def _lines(facts: Value) -> list[str]:
    """Facts, as the value of a step's argument, a line each."""
    return [flat(as_text(fact)) for fact in facts] if isinstance(facts, list) else []
