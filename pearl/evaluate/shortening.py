"""From a long answer to the short one that a data set asks for."""

from __future__ import annotations

from dataclasses import replace

from pearl.evaluate.methods import Outcome
from pearl.llm import FillSchema
from pearl.prompts.schemas import load_schema
from pearl.runtime import Caller, RunError, SchemaError, fill
from pearl.session import Session


async def shortened(outcome: Outcome, question: str, session: Session) -> Outcome:
    """An outcome with the short answer that its words give; the words stay as they are.

    Args:
        outcome: what a method came to that answers in sentences.
        question: what was asked.
        session: the model in its layers.

    Raises:
        ModelError: the model gave no usable answer.
        RunError: no reply holds a short answer.
    """
    if outcome.answer is None:
        return outcome
    caller = Caller(session.engine.ask, session.engine.identity, session.journal)
    given = (("question", question), ("answer", outcome.answer))
    try:
        found = await fill(caller, FillSchema(load_schema("short_answer"), given), "short")
    except SchemaError as error:
        raise RunError(str(error)) from None
    session.journal.decide("short", found["answer"])
    return replace(outcome, answer=found["answer"])
