"""Decomposed prompting (Khot et al., ICLR 2023): one step at a time."""

from __future__ import annotations

from pearl.evaluate.datasets.base import Example
from pearl.evaluate.methods.base import Kit, Method, Outcome, by_name
from pearl.session import Session


async def answer(example: Example, kit: Kit, session: Session) -> Outcome:
    """Ask for the next step until the answer is returned.

    Raises:
        ModelError: the model gave no usable answer.
        RunError: the decomposition came to no answer.
    """
    return (await by_name("decomp", example, kit, session)).outcome()


METHOD = Method(
    "decomp",
    "Steps are written one at a time, after seeing what the last gave.",
    answer,
    prose=True,
    needs_model=True,
)
