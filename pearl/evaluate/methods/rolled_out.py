"""Rolled-out chain of thought (Khot et al., ICLR 2023, section 4)."""

from __future__ import annotations

from dataclasses import replace

from pearl.evaluate.datasets.base import Example
from pearl.evaluate.methods.base import LIBRARY, STEPWISE, Kit, Method, Outcome, by_plan
from pearl.session import Session
from pearl.strategies.baselines import conclusion, rolled_out_plan
from pearl.strategies.pearl import shown_plans


async def answer(example: Example, kit: Kit, session: Session) -> Outcome:
    """One step that is shown the demonstrations as chains of thought.

    Raises:
        ModelError: the model gave no usable answer.
        RunError: the step has no output, or no option was named.
    """
    given = kit.plannings.get(STEPWISE, kit.plannings[LIBRARY])
    plan = rolled_out_plan(example.question, shown_plans(given.demonstrations), given.library)
    found = await by_plan(plan, example, kit, session)
    if example.options:
        return found
    return replace(found, answer=conclusion(found.answer or found.words))


METHOD = Method(
    "cot-rolled-out",
    "One step that sees the demonstrations as chains of thought.",
    answer,
    prose=True,
    needs_model=True,
)
