"""REBEL: a question is split until a tool, or what is known, answers each part.

Sodani, Moos and Mirman, "LLM Guided Inductive Inference for Solving
Compositional Problems", 2023 (arXiv 2309.11688), section 3, Algorithm 1.

The strategy of one run.

Which sub-questions are asked: none that is the question again (REBEL, Algorithm 1).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal as OneOf
from typing import TypeAlias

from pearl.lang.ast import Action, Literal, Ref, Step
from pearl.lang.builtins import Given
from pearl.lang.values import Value, as_text
from pearl.models.embeddings import Embed, choose_embedding, cosine
from pearl.models.middleware.cache import ReplyCache
from pearl.run.calls import Caller
from pearl.run.executor import Frame, Handlers, SolverError
from pearl.run.loop import Attempt, Move, Return, Run, RunError, Steps, run_in_frame
from pearl.strategies.rebel_calls import (
    KEPT,
    LOOKUP,
    TOOLS,
    Desk,
    Embedding,
    Known,
    Memory,
    RebelLimits,
    Spent,
    Try,
    embedding,
    facts_of,
    held_for,
    least,
    listed,
    written_input,
)
from pearl.tools.base import Tools
from pearl.tools.toolbox import WRONG_INPUT

NEAR = 0.98
"""The cosine above which two questions are one."""

Why: TypeAlias = OneOf["parent", "behind", "answered", "width"]


@dataclass(frozen=True, slots=True)
class Dropped:
    """A sub-question that is not asked.

    Args:
        question: its text.
        why: ``parent`` where it is a question that it is to be a part of, ``behind`` where it
            comes after such a one, ``answered`` where it is asked already, ``width`` where there
            are too many.
    """

    question: str
    why: Why


@dataclass(frozen=True, slots=True)
class Parts:
    """The sub-questions of a question.

    Args:
        kept: those that are asked, in order.
        dropped: the others, in order.
    """

    kept: tuple[str, ...] = ()
    dropped: tuple[Dropped, ...] = ()


async def sifted(
    found: Sequence[str],
    above: Sequence[str],
    answered: Sequence[str],
    width: int,
    embed: Embed,
) -> Parts:
    """Keep the sub-questions that bring a question further.

    One that is nearer than `NEAR` to its question, or to one that this is a
    part of, is dropped and ends splitting: what comes after it was to build on
    the answer.

    Args:
        found: as the model wrote them.
        above: the questions they are to be parts of; the last is the one that was split.
        answered: questions whose answers are known.
        width: how many are kept, at most.
        embed: tells whether two questions are the same.

    Raises:
        ModelError: there are no vectors.
    """
    if not found:
        return Parts()
    vectors = await embed([*above, *answered, *found])
    parents, rest = vectors[: len(above)], vectors[len(above) :]
    known, own = rest[: len(answered)], rest[len(answered) :]
    kept: list[str] = []
    dropped: list[Dropped] = []
    for at, (question, vector) in enumerate(zip(found, own, strict=True)):
        if _near(vector, parents):
            dropped.append(Dropped(question, "parent"))
            dropped += [Dropped(one, "behind") for one in found[at + 1 :]]
            break
        if _near(vector, known):
            dropped.append(Dropped(question, "answered"))
        elif len(kept) == width:
            dropped.append(Dropped(question, "width"))
        else:
            kept.append(question)
            known = [*known, vector]
    return Parts(tuple(kept), tuple(dropped))


def _near(vector: Sequence[float], others: Iterable[Sequence[float]]) -> bool:
    return any(cosine(vector, other) > NEAR for other in others)


GOES_ON = frozenset({"no-answer", "tool", WRONG_INPUT, "reply", "depth"})
"""Reasons for which a step may have no output, and the question goes on without it."""

ANSWER = "answer"


@dataclass(eq=False)
class Rebel:
    """Answers one question by Algorithm 1, and its sub-questions by the same.

    It is made for one run: `rebel` makes it, and its `handlers` go into the
    run that it is the strategy of. Its moves are those of four turns: ask a
    part, answer from memory, use a tool, end.

    Args:
        caller: asks the model and keeps the journal.
        tools: what can be asked beside the model.
        embedding: tells whether two questions are the same.
        limits: where it ends.
        spent: what all frames of the run have taken.
        memory: what all frames of the run have found.
        above: the questions that this one is a part of, the run's own first.
        facts: what is known at the start: a question and its answer each.
        held: calls that the frames around this one keep for themselves.
    """

    caller: Caller
    tools: Tools
    embedding: Embedding
    limits: RebelLimits
    spent: Spent
    memory: Memory = field(default_factory=Memory)
    above: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    held: int = 0
    _desk: Desk = field(init=False)
    _question: str = field(default="", init=False)
    _parts: deque[str] | None = field(default=None, init=False)
    _asked: int = field(default=0, init=False)
    _looked: bool = field(default=False, init=False)
    _hear: Callable[[Run], None] | None = field(default=None, init=False)
    _why: str = field(default="no tool was chosen.", init=False)
    _over: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        known = Known(self.facts, self.memory)
        self._desk = Desk(self.caller, self.tools, self.limits, self.spent, known, self.held)

    @property
    def handlers(self) -> Handlers:
        """Who carries out the actions of the library ``rebel`` in this frame."""
        return Handlers(self._desk.solvers, self._solve, self.limits.depth)

    async def next(self, run: Run) -> Move:
        """The next move of Algorithm 1.

        Raises:
            ModelError: the model gave no usable answer, or no call is left.
            RunError: there is no answer.
        """
        if self._hear is None:
            self._question = run.question
            self.spent.deepest = max(self.spent.deepest, len(self.above))
        else:
            self._hear(_going_on(run))
        if self._over:
            return Return((ANSWER,))
        if ANSWER in run.values:
            self._over = True
            return Steps((), (), (Ref(ANSWER),))
        for turn in (self._ask_part, self._ask_memory, self._ask_tool):
            if (move := await turn(run)) is not None:
                return move
        return self._end()

    # --- parts ---

    async def _ask_part(self, run: Run) -> Move | None:
        """Ask the next sub-question, as long as there can be a look-up of it."""
        del run
        if self._parts is None:
            self._parts = deque(await self._split())
        if not self._parts:
            return None
        if not self._desk.has(least(self._desk.known.facts) + KEPT):
            self._parts.clear()
            return None
        part = self._parts.popleft()
        self._asked += 1
        step = Step(f"sub_{self._asked}", "SOLVE", (Literal(part), listed(self._desk.known.args)))
        self._hear = partial(self._hear_part, part, step.name)
        return Attempt((step,))

    def _hear_part(self, part: str, name: str, run: Run) -> None:
        if run.failed is None:
            self._desk.known.learn(part, name, run.values[name])
        else:
            self._why = str(run.failed)

    async def _split(self) -> Sequence[str]:
        """The sub-questions that are asked."""
        decide, looked_up = self.caller.journal.decide, least(self._desk.known.facts)
        if len(self.above) >= self.limits.depth:
            decide("split", {"sub_questions": [], "ended": "depth"})
            return ()
        if not self._desk.has(1 + looked_up + KEPT):
            return ()
        found = await self._desk.asking(looked_up).split(self._question, self.memory.answered)
        parts = await sifted(
            found,
            (*self.above, self._question),
            self.memory.answered,
            self.limits.width,
            self.embedding(self.caller.journal),
        )
        dropped = [[one.question, one.why] for one in parts.dropped]
        decide("split", {"sub_questions": list(parts.kept), "dropped": dropped})
        return parts.kept

    # --- what is known ---

    async def _ask_memory(self, run: Run) -> Move | None:
        """Answer from facts, once, where they are enough."""
        del run
        facts = self._desk.known.facts
        if self._looked or not facts:
            return None
        self._looked = True
        # With few calls left the answer itself has to say whether facts are enough.
        if self._desk.has(1 + KEPT):
            found = await self._desk.asking(KEPT).answerable(self._question, facts)
            self.caller.journal.decide("memory", {"answerable": found, "facts": len(facts)})
            if not found:
                return None
        self._desk.told, self._hear = True, self._hear_memory
        return Attempt((self._ending,))

    def _hear_memory(self, run: Run) -> None:
        if run.failed is not None:
            self._why = str(run.failed)

    @property
    def _ending(self) -> Step:
        known = listed(self._desk.known.args)
        return Step(ANSWER, "ANSWER_FROM_FACTS", (Literal(self._question), known))

    # --- tools ---

    async def _ask_tool(self, run: Run) -> Move | None:
        """Call the tool that is chosen, or read its reply; where that fails, one other."""
        while True:
            if not self._desk.tries or self._desk.tries[-1].over:
                name = await self._chosen()
                if name is None:
                    return None
                self._desk.tries.append(Try(len(self._desk.tries) + 1, self.tools.tools[name]))
            one = self._desk.tries[-1]
            move = self._reading(one) if one.replied else await self._calling(one, run)
            if move is not None:
                return move
            one.over = True

    async def _chosen(self) -> str | None:
        """The tool that the question is put to next; None for none."""
        tried = {one.tool.name for one in self._desk.tries}
        left = {name: one for name, one in self.tools.tools.items() if name not in tried}
        if not left or len(tried) == TOOLS or not self._desk.has(self._desk.own + LOOKUP):
            return None
        if not self.spent.has_tool_calls():
            self.caller.journal.decide("limit", {"tool_calls": self.limits.tool_calls})
            return None
        path = f"tool/{len(tried) + 1}"
        name = await self._desk.asking(self._desk.own + LOOKUP - 1).choose(
            self._question, left, path
        )
        self.caller.journal.decide(path, {"tool": name})
        return name

    async def _calling(self, one: Try, run: Run) -> Move | None:
        """A call, with an input that the tool has not refused; None where there is none."""
        if len(one.refused) > self.limits.revisions or not self._desk.has(self._desk.own + 2):
            return None
        given = await self._desk.asking(self._desk.own + 1).input(
            one.tool, self._question, self._desk.known.facts, one.refused, one.path
        )
        if given is None:
            self._why = f"the tool {one.tool.name} could not be given its input."
            return None
        if one.has_refused(given):
            return None
        written = written_input(given, self._desk.known.found(run.values))
        self._hear = partial(self._hear_call, one, given)
        return Attempt((Step(one.reply, "CALL_TOOL", (Literal(one.tool.name), written)),))

    def _hear_call(self, one: Try, given: dict[str, object], run: Run) -> None:
        one.replied = run.failed is None
        if run.failed is not None:
            self._why = str(run.failed)
            [failure] = run.failed.failures or (None,)
            if failure is not None and failure.reason == WRONG_INPUT:
                one.refused.append((given, failure.cause))
            else:
                one.over = True

    def _reading(self, one: Try) -> Move:
        self._hear = partial(self._hear_reading, one)
        args = (Literal(self._question), Ref(one.reply), listed(self._desk.known.args))
        return Attempt((Step(ANSWER, "READ_REPLY", args),))

    def _hear_reading(self, one: Try, run: Run) -> None:
        one.over = True
        if run.failed is not None:
            self._why = str(run.failed)

    # --- the end ---

    def _end(self) -> Move:
        """Answer from facts after all, or say why there is no answer."""
        if self._desk.known.facts and not self._desk.told:
            self._over, self._hear = True, self._hear_memory
            return Steps((self._ending,), (), (Ref(ANSWER),))
        short = f" It took its {self.limits.calls} calls: allow more." if self._desk.short else ""
        raise RunError(f"There is no answer to “{self._question[:120]}”: {self._why}{short}")

    async def _solve(
        self, action: Action, given: Sequence[tuple[str, Given]], frame: Frame
    ) -> Value:
        """Carry out ``SOLVE``: the same for a sub-question, knowing what is known by now."""
        del action
        question, facts = (one.value for _, one in given)
        held = held_for(self._desk.left, self._desk.known.facts, len(self._parts or ()))
        inner = replace(
            self,
            caller=frame.caller,
            above=(*self.above, self._question),
            facts=tuple(facts_of(facts)),
            held=self.held + held,
        )
        try:
            finished = await run_in_frame(
                inner, as_text(question), replace(frame, handlers=inner.handlers)
            )
        except RunError as error:
            reason = error.failures[0].reason if error.failures else "no-answer"
            raise SolverError(reason, str(error)) from None
        return finished.text


def _going_on(run: Run) -> Run:
    """A run in which what was tried last succeeded, or failed in a way that ends nothing.

    Where the model cannot be reached, an answer from what is left would be
    another answer the next time.
    """
    if run.failed and any(one.reason not in GOES_ON for one in run.failed.failures):
        raise run.failed
    return run


LIBRARY = "rebel"
"""The action library that a run needs."""


def rebel(
    caller: Caller,
    tools: Tools,
    embed: Embed | None = None,
    limits: RebelLimits | None = None,
    replies: ReplyCache | None = None,
) -> Rebel:
    """The strategy of one run, with the library ``rebel`` and the `Rebel.handlers` it needs.

    Args:
        caller: asks the model; the one that the run is started with.
        tools: a toolbox, or `document_tools` of the run's document. Whoever made it closes it.
        embed: tells whether two questions are the same; by default `choose_embedding`.
        limits: where it ends.
        replies: where an endpoint's vectors are kept; by default nowhere.

    Raises:
        InputError: the embedding's settings cannot be used.
    """
    limits = limits or RebelLimits()
    known = embedding(embed or choose_embedding(), replies)
    return Rebel(caller, tools, known, limits, Spent(limits))
