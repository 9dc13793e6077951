"""Retrieve and read, without taking the question apart (Khot et al., ICLR 2023, section 4.4)."""

from __future__ import annotations

from pearl.answer import map_answer
from pearl.evaluate.datasets.base import Example
from pearl.evaluate.methods.base import Kit, Method, Outcome
from pearl.lang.library import load_library
from pearl.lang.printer import print_plan
from pearl.run.evidence import without_quotes
from pearl.run.executor import Handlers
from pearl.run.loop import run_strategy
from pearl.session import Session
from pearl.strategies.baselines import LIBRARY_RETRIEVE_READ as LIBRARY
from pearl.strategies.baselines import retrieve_read_plan
from pearl.strategies.pearl import GivenPlan
from pearl.strategies.registry import with_retriever


async def answer(example: Example, kit: Kit, session: Session) -> Outcome:
    """Look passages up for the question itself, and answer from them in one step.

    Raises:
        ModelError: the model gave no usable answer.
        RunError: a step has no output, or no option was named.
    """
    caller = session.caller()
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
