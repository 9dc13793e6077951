"""ReAct (Yao et al., ICLR 2023): thoughts and actions in turns."""

from __future__ import annotations

from pearl.evaluate.datasets.base import Example
from pearl.evaluate.methods.base import Kit, Method, Outcome, by_name
from pearl.session import Session


async def answer(example: Example, kit: Kit, session: Session) -> Outcome:
    """Search, look up and finish, over the question's paragraphs.

    Raises:
        ModelError: the model gave no usable answer.
        RunError: it came to no answer within its steps.
    """
    return (await by_name("react", example, kit, session)).outcome()


METHOD = Method(
    "react",
    "Paragraphs are searched and read a sentence at a time, as the model chooses.",
    answer,
    needs_model=True,
)
