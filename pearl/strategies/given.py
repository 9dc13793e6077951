"""A plan that somebody wrote already."""

from __future__ import annotations

from dataclasses import dataclass

from pearl.graph import outputs
from pearl.plan import Plan
from pearl.runtime import Return, Run, Steps


@dataclass(frozen=True, slots=True)
class GivenPlan:
    """All steps at once, then PEARL's answer rule."""

    plan: Plan

    async def next(self, run: Run) -> Steps | Return:
        if run.plan.steps:
            return Return(outputs(run.plan))
        return Steps(self.plan.steps, self.plan.declares, self.plan.returns)
