"""Zero-shot chain of thought (Kojima et al., 2022; PEARL, section 3)."""

from __future__ import annotations

from pearl.evaluate.datasets.base import Example
from pearl.evaluate.methods.base import Kit, Method, Outcome, by_plan
from pearl.session import Session
from pearl.strategies.baselines import reasoning_plan


async def answer(example: Example, kit: Kit, session: Session) -> Outcome:
    """One step that reasons before it answers; its answer is mapped to an option."""
    return await by_plan(reasoning_plan(example.question), example, kit, session)


METHOD = Method("cot", "One step, which is to reason before it answers.", answer, prose=True)
