"""ReAct (Yao et al., ICLR 2023): thoughts and actions in turns."""

from __future__ import annotations

from pearl.evaluate.datasets import Example
from pearl.evaluate.methods.base import Kit, Method, Outcome
from pearl.library import load_library
from pearl.runtime import Caller, run_strategy
from pearl.runtime.calls import at_most
from pearl.session import Session
from pearl.strategies.react import LIBRARY, React, reacting
from pearl.syntax import print_plan


async def answer(example: Example, kit: Kit, session: Session) -> Outcome:
    """Search, look up and finish, over the question's paragraphs.

    Raises:
        ModelError: the model gave no usable answer.
        RunError: it came to no answer within its steps.
    """
    asking = Caller(session.engine.ask, session.engine.identity, session.journal)
    caller = at_most(asking, kit.limits.calls)
    finished = await run_strategy(
        React(caller),
        example.question,
        example.document,
        load_library(LIBRARY),
        caller,
        session.context,
        reacting(example.document, kit.retriever),
    )
    return Outcome(finished.text, finished.text, print_plan(finished.plan))


METHOD = Method(
    "react", "Paragraphs are searched and read a sentence at a time, as the model chooses.", answer
)
