"""What planning is compared with: the same reader, asked in one step (PEARL, section 3).

Each baseline is a plan of one step, or of one for each order of the options,
so that it is run, journaled and traced as every plan is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pearl.library import Library
from pearl.llm import Demonstration
from pearl.llm.calls import letter
from pearl.plan import DOCUMENT, Action, Literal, Param, Plan, Ref, Step
from pearl.planner import write_plan
from pearl.runtime import Caller, Return, Run, Steps
from pearl.strategies.given import GivenPlan
from pearl.strategies.pearl import direct_plan
from pearl.syntax import print_plan
from pearl.values import Value

REASON = Action(
    "REASON_STEP_BY_STEP",
    (Param(DOCUMENT), Param("X")),
    "any",
    "Answer the question X from CTX. Reason step by step first: say what in CTX bears on X and "
    "what follows from it. Then state the answer in one sentence.",
)
"""Zero-shot chain of thought (Kojima et al., 2022), as an action."""

CHOOSE = Action(
    "CHOOSE_OPTION",
    (Param(DOCUMENT), Param("X"), Param("OPTIONS")),
    "any",
    "Answer the question X from CTX by choosing the best of OPTIONS. Reply with its letter alone "
    "on the first line.",
)
"""Multiple choice: the options are seen while the document is read (PEARL, appendix)."""

REMEMBER = Action(
    "ANSWER_WITHOUT_DOCUMENT",
    (Param("X"),),
    "any",
    "Answer the question X from what you know: there is no document. Reply with the answer alone, "
    "one a line where there are several.",
    traits=frozenset({"knowledge"}),
)
"""The baseline that shows what a model knows without the document."""

FOLLOW = Action(
    "ANSWER_WITH_PLAN",
    (Param(DOCUMENT), Param("X"), Param("PLAN")),
    "any",
    "Answer the question X from CTX. Work through the steps of PLAN one after another in your "
    "head, and state the answer that they lead to.",
)
"""The ablation in which a plan is shown and not executed."""


@dataclass(frozen=True, slots=True)
class PlanShown:
    """A plan is written as PEARL writes it, and shown with the question instead of executed.

    Args:
        library: the actions a plan may call.
        caller: asks the model and keeps the journal.
        demonstrations: example plans for the prompt.
    """

    library: Library
    caller: Caller
    demonstrations: tuple[Demonstration, ...] = ()

    async def next(self, run: Run) -> Steps | Return:
        if run.plan.steps:
            return await GivenPlan(run.plan).next(run)
        decide = self.caller.journal.decide
        planned = await write_plan(
            run.question, self.library, self.caller, decide, self.demonstrations
        )
        if planned.plan is None:
            decide("plan/fallback", planned.source.text)
            return await GivenPlan(direct_plan(run.question)).next(run)
        decide("plan/shown", print_plan(planned.plan))
        plan = _plan(run.question, FOLLOW, [[run.question, print_plan(planned.plan)]])
        return await GivenPlan(plan).next(run)


def reasoning_plan(question: str) -> Plan:
    """The plan of zero-shot chain of thought."""
    return _plan(question, REASON, [[question]])


def blind_plan(question: str) -> Plan:
    """The plan of the question without its document."""
    step = Step("answer", REMEMBER.name, (Literal(question),), "Answer the question")
    return Plan((step,), question, (REMEMBER,))


def choosing_plan(question: str, orders: Sequence[Sequence[str]]) -> Plan:
    """The plan of multiple choice: one step for each order of the options.

    Args:
        question: what is asked.
        orders: the options' texts, in each order they are shown in.
    """
    shown = [[f"{letter(at)}. {one}" for at, one in enumerate(order)] for order in orders]
    return _plan(question, CHOOSE, [[question, list(order)] for order in shown])


def _plan(question: str, action: Action, calls: Sequence[Sequence[Value]]) -> Plan:
    steps = tuple(
        Step(
            "answer" if len(calls) == 1 else f"order_{number}",
            action.name,
            (Ref(DOCUMENT), *map(Literal, arguments)),
            "Answer the question",
        )
        for number, arguments in enumerate(calls, 1)
    )
    return Plan(steps, question, (action,))
