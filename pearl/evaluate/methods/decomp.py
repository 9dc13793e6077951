"""Decomposed prompting (Khot et al., ICLR 2023): one step at a time."""

from __future__ import annotations

from pearl.evaluate.datasets import Example
from pearl.evaluate.methods.base import LIBRARY, STEPWISE, Kit, Method, Outcome, shown_plans
from pearl.runtime import Caller, run_strategy
from pearl.runtime.calls import at_most
from pearl.runtime.handlers import Handlers
from pearl.session import Session
from pearl.strategies import Decomp, decompose, worked
from pearl.strategies.retrieving import with_retriever
from pearl.syntax import print_plan
from pearl.values import as_text


async def answer(example: Example, kit: Kit, session: Session) -> Outcome:
    """Ask for the next step until the answer is returned.

    Raises:
        ModelError: the model gave no usable answer.
        RunError: the decomposition came to no answer.
    """
    given = kit.plannings.get(STEPWISE, kit.plannings[LIBRARY])
    asking = Caller(session.engine.ask, session.engine.identity, session.journal)
    caller = at_most(asking, kit.limits.calls)
    finished = await run_strategy(
        Decomp(given.library, caller, tuple(map(worked, shown_plans(given))), kit.limits.steps),
        example.question,
        example.document,
        given.library,
        caller,
        session.context,
        with_retriever(
            Handlers(decompose=decompose, depth=kit.limits.depth, width=kit.limits.width),
            example.document,
            kit.retriever,
        ),
    )
    text = "\n\n".join(as_text(finished.values[name]) for name in finished.outputs)
    return Outcome(text, text, print_plan(finished.plan))


METHOD = Method(
    "decomp",
    "Steps are written one at a time, after seeing what the last gave.",
    answer,
    prose=True,
)
