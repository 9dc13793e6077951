"""PEARL: write the whole plan before the document is read, then execute it.

Sun et al., "PEARL: Prompting Large Language Models to Plan and Execute Actions
Over Long Documents", EACL 2024, section 2.

Plans that somebody wrote already.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pearl.lang.ast import DOCUMENT, Action, Literal, Param, Plan, Ref, Step
from pearl.lang.graph import outputs
from pearl.lang.library import Library
from pearl.lang.parser import parse
from pearl.passes import rewrite
from pearl.prompts.calls import Demonstration
from pearl.run.calls import Caller
from pearl.run.journal import Journal
from pearl.run.loop import Return, Run, Steps
from pearl.strategies.planner import CORRECTIONS, write_plan


@dataclass(frozen=True, slots=True)
class GivenPlan:
    """All steps at once, then PEARL's answer rule."""

    plan: Plan

    async def next(self, run: Run) -> Steps | Return:
        if run.plan.steps:
            return Return(outputs(run.plan))
        return Steps(self.plan.steps, self.plan.declares, self.plan.returns)


def shown_plans(demonstrations: Iterable[Demonstration]) -> tuple[Plan, ...]:
    """Demonstrations as plans, with their questions.

    Args:
        demonstrations: each a question and a plan's text.
    """
    texts = (f"question: {one.question}\n\n{one.plan}" for one in demonstrations)
    return tuple(parse(one).plan for one in texts)


ANSWER = Action(
    "ANSWER_DIRECTLY",
    (Param(DOCUMENT), Param("X")),
    doc="Answer the question X from CTX: say what CTX says and what follows from it.",
)
"""What is left when no plan is accepted: one step that asks the question itself."""


@dataclass(frozen=True, slots=True)
class Pearl:
    """Plan, then execute.

    Where the model writes no plan that the checker accepts, the question is
    answered directly, by one step; the journal's ``plan/fallback`` says so.

    Args:
        library: the actions a plan may call.
        caller: asks the model and keeps the journal.
        demonstrations: example plans for the prompt.
        corrections: how often the model may correct its plan.
        passes: names of rewrites that the plan goes through.
    """

    library: Library
    caller: Caller
    demonstrations: tuple[Demonstration, ...] = ()
    corrections: int = CORRECTIONS
    passes: tuple[str, ...] = ()

    async def next(self, run: Run) -> Steps | Return:
        if run.plan.steps:
            return await GivenPlan(run.plan).next(run)
        planned = await write_plan(
            run.question,
            self.library,
            self.caller,
            self.caller.journal.decide,
            self.demonstrations,
            self.corrections,
        )
        plan = planned.plan
        if plan is None:
            self.caller.journal.decide("plan/fallback", planned.source.text)
            plan = direct_plan(run.question)
        plan = rewritten(plan, self.library, self.passes, self.caller.journal)
        return await GivenPlan(plan).next(run)


def rewritten(plan: Plan, library: Library, passes: tuple[str, ...], journal: Journal) -> Plan:
    """A plan after some passes; the journal says what they did."""
    applied = rewrite(plan, library, passes)
    if applied.notes:
        journal.decide("plan/passes", list(applied.notes))
    return applied.plan


def direct_plan(question: str) -> Plan:
    """The plan that only asks the question."""
    step = Step(
        "answer", ANSWER.name, (Ref(DOCUMENT), Literal(question)), "Answer the question directly"
    )
    return Plan((step,), question, (ANSWER,))
