"""Retrieve and read, without taking the question apart (Khot et al., ICLR 2023, section 4.4)."""

from __future__ import annotations

from pearl.evaluate.datasets import Example
from pearl.evaluate.methods.base import Kit, Method, Outcome
from pearl.library import load_library
from pearl.runtime import Caller, run_strategy
from pearl.runtime.evidence import without_quotes
from pearl.runtime.handlers import Handlers
from pearl.runtime.mapping import map_answer
from pearl.session import Session
from pearl.strategies import GivenPlan, retrieve_read_plan
from pearl.strategies.retrieve_read import LIBRARY
from pearl.strategies.retrieving import with_retriever
from pearl.syntax import print_plan


async def answer(example: Example, kit: Kit, session: Session) -> Outcome:
    """Look passages up for the question itself, and answer from them in one step.

    Raises:
        ModelError: the model gave no usable answer.
        RunError: a step has no output, or no option was named.
    """
    caller = Caller(session.engine.ask, session.engine.identity, session.journal)
    finished = await run_strategy(
        GivenPlan(retrieve_read_plan(example.question)),
        example.question,
        example.document,
        load_library(LIBRARY),
        caller,
        session.context,
        with_retriever(Handlers(), example.document, kit.retriever),
    )
    if example.options:
        option = await map_answer(example.question, finished.text, example.options, caller)
        return Outcome(option.letter, finished.text, print_plan(finished.plan))
    text = without_quotes(finished.text) or finished.text
    return Outcome(text, finished.text, print_plan(finished.plan))


METHOD = Method(
    "retrieve-read", "Passages for the question are looked up and read once.", answer, prose=True
)
