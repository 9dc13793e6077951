"""FSM prompting: a state machine asks for one small thing after another.

Wang et al., "FSM: A Finite State Machine Based Zero-Shot Prompting Paradigm
for Multi-Hop Question Answering", 2024. What follows on what is the table in
`pearl.strategies.fsm.table`; what works is a step of the plan, and what only
decides is in the journal.

Where a machine of FSM prompting is, and the steps that its work states write.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pearl.lang.ast import DOCUMENT, Arg, Items, Literal, Ref, Step, Template
from pearl.lang.graph import needed
from pearl.lang.library import Library, load_library
from pearl.lang.source import Source
from pearl.lang.values import Value, as_text
from pearl.run.calls import Caller, Check, SchemaError
from pearl.run.executor import Handlers
from pearl.run.loop import Attempt, Return, Run, RunError, Steps
from pearl.strategies.fsm_states import (
    END,
    FSM1,
    FSM2,
    Desk,
    FsmLimits,
    Machine,
    fsm_handlers,
    of,
    one_line,
    plain,
    solved,
)


@dataclass(frozen=True, slots=True)
class Hop:
    """A sub-question that was answered.

    Args:
        found: the step that has the answer.
        question: what was to be answered when it was asked.
    """

    found: str
    question: Arg


@dataclass(slots=True)
class Walk:
    """Where a machine is, and what it has.

    Args:
        state: the state's name.
        number: of states it has been in, this one with them.
        question: what is to be answered now: the run's question, or the last revision of it.
        sub: the sub-question that is being answered.
        hops: those that were answered, in order.
        spare: the last of them while its sub-question is answered anew: better than nothing.
        revised: the revision that waits for a judgement, where there is one.
        summary: the step that has the answer; empty before.
        review: the step that reviewed it; empty before.
        doing: the step that is under way; empty where none is.
        tried: sub-questions that came to nothing.
        refused: what came to nothing, with the reason, by the state that is to know of it.
        backtracks: how often it went back.
        limit: which limit was met; empty where none was.
    """

    state: str
    number: int = 1
    question: Arg = field(default_factory=lambda: Literal(""))
    sub: str = ""
    hops: list[Hop] = field(default_factory=list)
    spare: Hop | None = None
    revised: Arg | None = None
    summary: str = ""
    review: str = ""
    doing: str = ""
    tried: list[str] = field(default_factory=list)
    refused: dict[str, list[str]] = field(default_factory=dict)
    backtracks: int = 0
    limit: str = ""

    def found(self, run: Run) -> list[Value]:
        """The records of the searches that found an answer, in order."""
        return [run.values[hop.found] for hop in self.hops]


def work(walk: Walk, action: str, run: Run) -> tuple[Step, ...]:
    """The steps of a work state; the last of them is the state's own.

    Args:
        walk: where the machine is.
        action: what the state's step calls.
        run: the run so far.
    """
    why = [Literal(one) for one in walk.refused.get(walk.state, ())]
    whole, found = Literal(run.question), Items(tuple(Ref(hop.found) for hop in walk.hops))
    before: tuple[Step, ...] = ()
    args: tuple[Arg, ...]
    match walk.state:
        case "search":
            name = f"found_{len(walk.hops) + 1}"
            asked, before = _woven(walk, run)
            args = (Ref(DOCUMENT), asked)
        case "revise":
            name = f"question_{len(walk.hops) + 1}"
            args = (walk.hops[-1].question, Ref(walk.hops[-1].found))
        case "summarise":
            name, args = "summary", (whole, found)
        case _:
            name, args = "review", (Ref(DOCUMENT), whole, Ref(walk.summary), found)
    return (*before, Step(free(name, run), action, (*args, *why)))


def last(walk: Walk, run: Run) -> tuple[tuple[Step, ...], str]:
    """The steps after the last state, and the one that has the answer.

    Args:
        walk: where the machine is.
        run: the run so far.
    """
    if not walk.review:
        return (), walk.summary
    step = Step(free("answer", run), "ANSWER", (Ref(walk.review),))
    return (step,), step.name


def text_of(question: Arg, run: Run) -> str:
    """A question that is written in the plan, or that a step gave.

    Args:
        question: as an argument.
        run: the run so far.
    """
    if isinstance(question, Ref):
        return as_text(run.values[question.name])
    return as_text(question.value) if isinstance(question, Literal) else ""


def free(name: str, run: Run) -> str:
    """The name, or where a step has it already, the name with a number.

    Args:
        name: as wished.
        run: the run so far.
    """
    number, tried = 1, name
    while tried in run.values:
        number += 1
        tried = f"{name}_{number}"
    return tried


def _woven(walk: Walk, run: Run) -> tuple[Arg, tuple[Step, ...]]:
    """The sub-question with references to what it has from earlier steps, and the steps for them.

    What is asked is the same to the letter.
    """
    if walk.sub == text_of(walk.question, run):
        return walk.question, ()
    answers = {
        as_text(of(value, "answer")): f"{hop.found}_answer"
        for hop, value in zip(walk.hops, walk.found(run), strict=True)
    }
    sources = {f"{hop.found}_answer": hop.found for hop in walk.hops}
    parts = _cut(walk.sub, answers)
    if len(parts) == 1:
        return Literal(walk.sub), ()
    told = [Ref(answers[part]) if at % 2 else part for at, part in enumerate(parts)]
    wanted = dict.fromkeys(one.name for one in told if isinstance(one, Ref))
    steps = [
        Step(name, "ANSWER", (Ref(sources[name]),)) for name in wanted if name not in run.values
    ]
    return Template(tuple(part for part in told if part != "")), tuple(steps)


def _cut(text: str, answers: Mapping[str, str]) -> Sequence[str]:
    """A text cut at the answers in it, which are in the odd places."""
    wanted = sorted(filter(None, answers), key=len, reverse=True)
    if not wanted:
        return [text]
    return re.split(rf"(?<!\w)({'|'.join(map(re.escape, wanted))})(?!\w)", text)


LIBRARY = "fsm"
"""The library that has the actions of its steps."""

_GOING_BACK = {"no-answer": "nothing", "solver": "misfit", "": "misfit"}
"""Outcomes of a step that failed, by the reason; every other reason ends the run."""


class Fsm:
    """Walks a machine: its work states are steps, its decisions are in the journal.

    One object is for one run.

    Args:
        machine: the table.
        caller: asks the model and keeps the journal.
        document: what is searched; the run's own.
        limits: how far it goes.
    """

    def __init__(
        self, machine: Machine, caller: Caller, document: Source, limits: FsmLimits
    ) -> None:
        self.machine = machine
        self.limits = limits
        self._desk = Desk(machine, caller, document, limits)
        self._walk = Walk(machine.states[0].name)

    @property
    def library(self) -> Library:
        """The actions that its steps call."""
        return load_library(LIBRARY)

    @property
    def handlers(self) -> Handlers:
        """Who carries them out: hand them to the run."""
        return fsm_handlers(self._desk)

    @property
    def hops(self) -> int:
        """Sub-questions that were answered."""
        return len(self._walk.hops)

    @property
    def backtracks(self) -> int:
        """How often it went back to an earlier state."""
        return self._walk.backtracks

    @property
    def calls(self) -> int:
        """Requests it made to the model."""
        return self._desk.calls

    async def next(self, run: Run) -> Attempt | Steps | Return:
        """Go from state to state, up to the next step or the answer.

        Raises:
            ModelError: the model gave no usable answer.
            RunError: a limit was met before anything was found, or a step cannot run.
        """
        walk = self._walk
        if run.plan.returns:
            return Return(tuple(ref.name for ref in run.plan.returns))
        if walk.number == 1:
            walk.question = Literal(run.question)
        if walk.doing:
            self._done(run)
        while walk.state != END:
            if self._desk.left(walk.state) < 1:
                self._stop("calls", f"its {self.limits.calls} requests are used up: allow more.")
            elif walk.state == "decompose":
                await self._decompose(run)
            elif walk.state == "judge":
                await self._judge(run)
            else:
                steps = work(walk, self.machine.state(walk.state).action, run)
                walk.doing = steps[-1].name
                return Attempt(steps)
        steps, name = last(walk, run)
        whole = (*run.plan.steps, *steps)
        aside = {one.name for one in whole} - needed((name,), whole)
        return Steps(steps, returns=(Ref(name),), aside=frozenset(aside))

    async def _decompose(self, run: Run) -> None:
        walk = self._walk
        known = walk.found(run)
        asked = {plain(as_text(of(one, "question"))) for one in known}
        tried = {plain(one) for one in walk.tried}

        def bad(found: dict[str, Any]) -> list[str]:
            again = plain(found["sub_question"]) in tried - asked
            return ["sub_question: it was tried before: ask for something else."] * again

        question = text_of(walk.question, run)
        found = await self._decided([("question", question), ("solved", solved(known))], bad)
        if found is None:
            return
        walk.sub = one_line(found["sub_question"])
        if plain(walk.sub) in asked:
            # Nothing new is left to ask: to ask again would go on for ever.
            self._go("repeated", sub_question=walk.sub)
            return
        for state in ("search", "revise", "judge"):
            walk.refused.pop(state, None)
        self._go(found["kind"], sub_question=walk.sub)

    async def _judge(self, run: Run) -> None:
        walk = self._walk
        revised = walk.revised or walk.question
        answered = of(walk.found(run)[-1], "question")
        question = text_of(revised, run)
        found = await self._decided([("question", question), ("sub_question", answered)])
        if found is None:
            return
        if found["same"]:
            self._go("same")
        elif len(walk.hops) >= self.limits.hops:
            self._stop("hops", f"{self.limits.hops} sub-questions were answered.")
        else:
            walk.question = revised
            self._go("different")

    async def _decided(
        self, told: Sequence[tuple[str, Value]], check: Check = lambda _: ()
    ) -> dict[str, Any] | None:
        """A decision's reply; None where none fits, and the machine has gone back."""
        walk = self._walk
        refused: list[Value] = [*walk.refused.get(walk.state, ())]
        try:
            return await self._desk.ask(walk.state, told, self._path, refused, check=check)
        except SchemaError as error:
            self._back("misfit", str(error), str(error))
            return None

    def _done(self, run: Run) -> None:
        """What came of the step that was under way."""
        walk = self._walk
        name, walk.doing = walk.doing, ""
        if run.failed is not None:
            self._failed(run, run.failed)
            return
        match walk.state:
            case "search":
                settled = plain(walk.sub) == plain(text_of(walk.question, run))
                walk.hops.append(Hop(name, walk.question))
                walk.spare = None
                answer = as_text(of(run.values[name], "answer"))
                self._go("settled" if settled else "found", step=name, answer=answer)
            case "revise":
                walk.revised = Ref(name)
                self._go("revised", step=name, question=as_text(run.values[name]))
            case "summarise":
                walk.summary = name
                self._go("answered", step=name)
            case _:
                walk.review = name
                self._go("reviewed", step=name)

    def _failed(self, run: Run, error: RunError) -> None:
        walk = self._walk
        reason = error.failures[0].reason if error.failures else ""
        cause = error.failures[0].cause if error.failures else str(error)
        if reason not in _GOING_BACK:
            raise error
        outcome = _GOING_BACK[reason]
        if walk.state == "search":
            walk.tried.append(walk.sub)
            self._back(outcome, cause, f"{walk.sub} ({cause})")
        elif walk.state == "revise":
            record = walk.found(run)[-1]
            if self._back(outcome, cause, f"{as_text(of(record, 'answer'))} ({cause})"):
                # The sub-question is answered anew.
                walk.sub = as_text(of(record, "question"))
                walk.spare = walk.hops.pop()
                walk.question = walk.spare.question
        else:
            self._back(outcome, cause, cause)

    def _go(self, outcome: str, **told: str) -> None:
        """On to the state that the table has for an outcome."""
        self._enter(outcome, self.machine.state(self._walk.state).on[outcome], told)

    def _back(self, outcome: str, cause: str, told: str) -> bool:
        """Back to the state that the table has for an outcome, which is told why.

        Returns:
            Whether it went there; False where a limit led elsewhere.
        """
        walk = self._walk
        to = self.machine.state(walk.state).back[outcome]
        if walk.state == "decompose" and not walk.hops:
            tried = walk.tried[0][:120] if walk.tried else ""
            self._stop("start", f"the document does not answer “{tried}”." if tried else cause)
        elif walk.limit or walk.backtracks >= self.limits.backtracks:
            self._stop("backtracks", f"it went back {walk.backtracks} times, and then: {cause}")
        else:
            walk.backtracks += 1
            # The state itself is told too, so that it is not asked the same to the letter again.
            for state in (to, walk.state):
                walk.refused.setdefault(state, []).append(told)
            self._enter(outcome, to, {"reason": cause})
            return True
        return False

    def _stop(self, limit: str, reason: str) -> None:
        """A limit was met: to the answer, with what there is.

        Raises:
            RunError: there is nothing.
        """
        walk = self._walk
        if walk.spare:
            walk.hops.append(walk.spare)
            walk.spare = None
        to = self.machine.state(walk.state).limit
        if not to or not (walk.summary if to == END else walk.hops):
            raise RunError(one_line(f"{self.machine.name} has no answer: {reason}"))
        walk.limit = limit
        self._enter("limit", to, {"limit": limit, "reason": reason})

    def _enter(self, outcome: str, to: str, told: Mapping[str, str]) -> None:
        self._desk.caller.journal.decide(self._path, {"outcome": outcome, "to": to, **told})
        self._walk.number += 1
        self._walk.state = to

    @property
    def _path(self) -> str:
        return f"fsm/{self._walk.number}/{self._walk.state}"


def fsm1(caller: Caller, document: Source, limits: FsmLimits | None = None) -> Fsm:
    """FSM1: the machine that ends with the answer.

    Run it with its own `Fsm.library` and `Fsm.handlers`.

    Args:
        caller: asks the model and keeps the journal.
        document: what is searched; the run's own.
        limits: how far it goes.
    """
    return Fsm(FSM1, caller, document, limits or FsmLimits())


def fsm2(caller: Caller, document: Source, limits: FsmLimits | None = None) -> Fsm:
    """FSM2: as `fsm1`, and then supporting facts, evidence triples and an explanation.

    Args:
        caller: asks the model and keeps the journal.
        document: what is searched; the run's own.
        limits: how far it goes.
    """
    return Fsm(FSM2, caller, document, limits or FsmLimits())
