"""The question without its document: what a model knows by itself."""

from __future__ import annotations

from pearl.evaluate.datasets.base import Example
from pearl.evaluate.methods.base import Kit, Method, Outcome, by_plan
from pearl.session import Session
from pearl.strategies.baselines import blind_plan


async def answer(example: Example, kit: Kit, session: Session) -> Outcome:
    """One step that asks the question and is not given the document."""
    return await by_plan(blind_plan(example.question), example, kit, session)


METHOD = Method("no-context", "The question is asked without the document.", answer, prose=True)
