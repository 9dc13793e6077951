"""What PEARL and the multi-hop strategies are compared with: one prompt, or one plan of ours.

The question alone (PEARL, section 3: the baseline GQA), zero-shot chain of
thought (Kojima et al., 2022), multiple choice under several orders of the options
(PEARL, appendix), rolled-out chain of thought and retrieve-and-read (Khot et al.,
ICLR 2023, section 4), and one reply in a demanded form: the answer only, or its
evidence too (Wang et al., "FSM: A Finite State Machine Based Zero-Shot Prompting
Paradigm for Multi-Hop Question Answering", 2024, settings 1 and 2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from pearl.answer import map_answer, read_option, reads_by_words
from pearl.evaluate.datasets.base import NO_DOCUMENT, Example
from pearl.evaluate.methods.base import (
    LIBRARY,
    STEPWISE,
    EvaluationContext,
    Outcome,
    answer_and_map,
    conclude,
    conclude_text,
)
from pearl.evaluate.supporting_facts import support_measures
from pearl.lang.ast import Plan
from pearl.lang.builtins import conclusion
from pearl.lang.library import Library, load_library
from pearl.lang.values import as_text
from pearl.prompts.calls import MapAnswer, letter_of
from pearl.runtime.calls import Caller
from pearl.runtime.executor import NONE, Frame, Handlers
from pearl.runtime.loop import Finished, RunError, run_strategy
from pearl.session import Session
from pearl.strategies import baselines
from pearl.strategies.pearl import GivenPlan, shown_plans
from pearl.strategies.registry import prepare_own, with_retriever


async def one_step(
    plan_of: Callable[[str], Plan], example: Example, shared: EvaluationContext, session: Session
) -> Outcome:
    """A plan of one step, which nobody wrote, of a question; its answer is mapped to an option."""
    plan = plan_of(example.question)
    if example.document == NO_DOCUMENT:
        plan = baselines.without_document(plan)
    ready = prepare_own(lambda _: GivenPlan(plan), shared.setups[LIBRARY].library)
    return await answer_and_map(ready, example, session)


async def rolled_out(example: Example, shared: EvaluationContext, session: Session) -> Outcome:
    """One step that is shown the demonstrations as chains of thought."""
    setup = shared.setup(STEPWISE)
    shown = shown_plans(setup.demonstrations)
    plan_of = partial(baselines.rolled_out_plan, shown=shown, library=setup.library)
    return await one_step(plan_of, example, shared, session)


async def multiple_choice(example: Example, shared: EvaluationContext, session: Session) -> Outcome:
    """One step for each of four orders of the options, in which each stands at every place once.

    Of four options they are the paper's: as given, A↔D B↔C, A↔C B↔D, A↔B C↔D.

    A model may prefer a place to an option. The answer is the one under the order of the data set.
    A reply that names no option is mapped to one, as an open answer is.
    """
    orders = orders_of(example.options)
    texts = [[example.options[at] for at in order] for order in orders]
    plan = baselines.choosing_plan(example.question, texts)
    finished = await _run(plan, example, shared.setups[LIBRARY].library, session)
    chosen: list[str | None] = []
    for step, order, options in zip(plan.steps, orders, texts, strict=True):
        reply = as_text(finished.values[step.name])
        caller = session.caller()
        caller = replace(caller, journal=caller.journal.under(step.name))
        place = await _choice(reply, options, example.question, caller)
        chosen.append(None if place is None else letter_of(example.options, order[place]))
    words = as_text(finished.values[plan.steps[0].name])
    picked = chosen[0] is not None and reads_by_words(session.engine.model)
    measures = {"guessed": 1.0} if picked else {}
    return Outcome(chosen[0], words, orders=tuple(chosen), measures=measures)


def lacks_options(_: EvaluationContext, example: Example) -> str:
    """What a choice lacks where a question has no options; empty where it has some."""
    return "" if example.options else f"needs options, and question {example.id} has none."


PAPER = ((0, 1, 2, 3), (3, 2, 1, 0), (2, 3, 0, 1), (1, 0, 3, 2))
"""The orders of four options (PEARL, appendix)."""


def orders_of(options: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Four orders at most in which every option stands at each place once.

    Returns:
        For each order the options' places in the first one.
    """
    size = len(options)
    if size == len(PAPER):
        return PAPER
    turns = range(min(len(PAPER), size))
    return tuple(tuple((at + turn) % size for at in range(size)) for turn in turns)


async def _choice(reply: str, options: Sequence[str], question: str, caller: Caller) -> int | None:
    """The place of the option that a reply chose, in the order that it was shown."""
    first, _, rest = reply.partition("\n")
    place = read_option(first, options)
    if place is None and rest:
        place = read_option(reply, options)
    if place is None:
        try:
            call = MapAnswer(question, reply, tuple(options))
            option = await map_answer(call, caller)
            place = options.index(option.text) if option.named else None
        except RunError:
            return None
    return place


async def retrieve_and_read(
    example: Example, shared: EvaluationContext, session: Session
) -> Outcome:
    """Look passages up for the question itself, and answer from them in one step."""
    passages = shared.passages or baselines.PASSAGES
    plan = baselines.retrieve_read_plan(example.question, passages)
    library = shared.setup(STEPWISE).library
    if any(step.action not in library.actions for step in plan.steps):
        library = load_library(baselines.RETRIEVAL_LIBRARY)
    handlers = with_retriever(NONE, example.document, shared.retriever)
    finished = await _run(plan, example, library, session, handlers)
    outcome = await conclude_text(finished, example, session)
    if example.options:
        return outcome
    return replace(outcome, answer=conclusion(finished.text))


async def in_form(
    action: str, example: Example, shared: EvaluationContext, session: Session
) -> Outcome:
    """One reply in a demanded form, whose evidence is measured where it has some.

    ``action`` is how the question is asked: one of the library ``asking``.
    """
    document = None if example.document == NO_DOCUMENT else example.document
    plan = baselines.asking_plan(action, example.question)
    handlers = baselines.asking(session.caller(), document, session.context)
    finished = await _run(plan, example, load_library(baselines.LIBRARY), session, handlers)
    reply = baselines.fields_of(finished.values[baselines.OUTPUT])
    answer = reply["answer"]
    measures: Mapping[str, float] = {}
    if "supporting_facts" in reply:
        facts, triples = reply["supporting_facts"], reply["triples"]
        measures = support_measures(example, answer, facts, triples)
    outcome = Outcome(None, finished.text, measures=measures)
    return await conclude(outcome, answer, example, session)


async def _run(
    plan: Plan, example: Example, library: Library, session: Session, handlers: Handlers = NONE
) -> Finished:
    question, document, caller = example.question, example.document, session.caller()
    return await run_strategy(
        GivenPlan(plan), question, Frame(document, library, caller, session.context, handlers)
    )
