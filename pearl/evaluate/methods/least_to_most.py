"""Least-to-most prompting (Zhou et al., ICLR 2023)."""

from __future__ import annotations

from pearl.evaluate.datasets.base import Example
from pearl.evaluate.methods.base import LIBRARY, Kit, Method, Outcome, by_strategy
from pearl.session import Session
from pearl.strategies.least_to_most import LeastToMost
from pearl.strategies.registry import prepare_own


async def answer(example: Example, kit: Kit, session: Session) -> Outcome:
    """Sub-questions, the simplest first, and then the question itself.

    Raises:
        ModelError: the model gave no usable answer.
        RunError: the question could not be reduced, or a step has no output.
    """
    prepared = prepare_own(LeastToMost, kit.plannings[LIBRARY].library)
    return await by_strategy(prepared, example, session)


METHOD = Method(
    "least-to-most",
    "Sub-questions are listed first, then answered one after another.",
    answer,
    prose=True,
    needs_model=True,
)
