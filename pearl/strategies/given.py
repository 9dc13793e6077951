"""Plans that somebody wrote already."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pearl.graph import outputs
from pearl.llm import Demonstration
from pearl.plan import Plan
from pearl.runtime import Return, Run, Steps
from pearl.syntax import parse


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
