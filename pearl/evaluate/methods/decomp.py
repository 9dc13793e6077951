"""Decomposed prompting (Khot et al., ICLR 2023): one step at a time."""

from __future__ import annotations

from pearl.evaluate.datasets import Example
from pearl.evaluate.methods.base import LIBRARY, Kit, Method, Outcome
from pearl.runtime import Caller, run_strategy
from pearl.runtime.handlers import Handlers
from pearl.session import Session
from pearl.strategies import Decomp, decompose, worked
from pearl.syntax import parse, print_plan
from pearl.values import as_text


async def answer(example: Example, kit: Kit, session: Session) -> Outcome:
    """Ask for the next step until the answer is returned.

    Raises:
        ModelError: the model gave no usable answer.
        RunError: the decomposition came to no answer.
    """
    given = kit.plannings[LIBRARY]
    shown = [f"question: {one.question}\n\n{one.plan}" for one in given.demonstrations]
    caller = Caller(session.engine.ask, session.engine.identity, session.journal)
    finished = await run_strategy(
        Decomp(given.library, caller, tuple(worked(parse(one).plan) for one in shown)),
        example.question,
        example.document,
        given.library,
        caller,
        session.context,
        Handlers(decompose=decompose),
    )
    text = "\n\n".join(as_text(finished.values[name]) for name in finished.outputs)
    return Outcome(text, text, print_plan(finished.plan))


METHOD = Method(
    "decomp", "Steps are written one at a time, after seeing what the last gave.", answer
)
