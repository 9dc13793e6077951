"""One reply in a demanded form: answer only (setting 1), or with its evidence (setting 2).

The settings are those of Wang et al., "FSM: A Finite State Machine Based
Zero-Shot Prompting Paradigm for Multi-Hop Question Answering", 2024.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pearl.evaluate.datasets.base import NO_DOCUMENT, Example
from pearl.evaluate.methods.base import Kit, Method, Outcome
from pearl.evaluate.supporting_facts import supported
from pearl.lang.library import load_library
from pearl.run.loop import run_strategy
from pearl.session import Session
from pearl.strategies.baselines import LIBRARY, OUTPUT, asking, asking_plan, fields_of
from pearl.strategies.pearl import GivenPlan


async def answer(example: Example, kit: Kit, session: Session, action: str) -> Outcome:
    """Ask the question in one step, and measure the evidence where the reply has some.

    Args:
        example: the question.
        kit: what methods share.
        session: the model in its layers.
        action: how it is asked: one of the library ``asking``.

    Raises:
        RunError: no reply had the demanded form, or there was none.
    """
    del kit
    document = None if example.document == NO_DOCUMENT else example.document
    caller = session.caller()
    finished = await run_strategy(
        GivenPlan(asking_plan(action, example.question)),
        example.question,
        example.document,
        load_library(LIBRARY),
        caller,
        session.context,
        asking(caller, document, session.context),
    )
    found = fields_of(finished.values[OUTPUT])
    measures: Mapping[str, float] = {}
    if "supporting_facts" in found:
        measures = supported(
            example,
            found["answer"],
            found["supporting_facts"],
            found["triples"],
            session.journal.entries,
        )
    return Outcome(found["answer"], finished.text, measures=measures)


NORMAL = Method(
    "normal",
    "One reply gives the answer alone.",
    partial(answer, action="ANSWER_SHORT"),
    needs_model=True,
)
EVIDENCE = Method(
    "normal-evidence",
    "One reply gives the answer, its sentences and its triples.",
    partial(answer, action="ANSWER_WITH_EVIDENCE"),
    needs_model=True,
)
COT = Method(
    "cot-answer",
    "One reply reasons, and gives the answer alone.",
    partial(answer, action="REASON_SHORT"),
    needs_model=True,
)
COT_EVIDENCE = Method(
    "cot-evidence",
    "One reply reasons, and gives the answer, its sentences and its triples.",
    partial(answer, action="REASON_WITH_EVIDENCE"),
    needs_model=True,
)
SP_COT = Method(
    "sp-cot",
    "One reply asks and answers sub-questions of its own, and then the question.",
    partial(answer, action="ASK_ONESELF"),
    needs_model=True,
)
