"""The question alone, answered in one step (PEARL, section 3: the baseline GQA)."""

from __future__ import annotations

from pearl.evaluate.datasets.base import Example
from pearl.evaluate.methods.base import Kit, Method, Outcome, by_plan
from pearl.session import Session
from pearl.strategies.pearl import direct_plan


async def answer(example: Example, kit: Kit, session: Session) -> Outcome:
    """One step that asks the question; its answer is mapped to an option."""
    return await by_plan(direct_plan(example.question), example, kit, session)


METHOD = Method("zero-shot", "The question is asked in one step.", answer, prose=True)
