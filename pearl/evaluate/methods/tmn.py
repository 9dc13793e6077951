"""Talking to agents: hop by hop, as was learned or as a model proposes (CommaQA, section 4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from pearl.answer import Session
from pearl.commaqa.agents import Agents, handlers
from pearl.commaqa.tmn import SEARCH, LanguageModelScorer, Search, Tmn
from pearl.commaqa.world import World
from pearl.evaluate.context import LIBRARY, EvaluationContext, HopSearch
from pearl.evaluate.datasets.base import Example
from pearl.evaluate.methods.base import Outcome, whole_text
from pearl.lang.library import load_library
from pearl.lang.source import InputError
from pearl.lang.values import canonical_json, to_json
from pearl.runtime.calls import Entry, at_most
from pearl.runtime.loop import run_strategy
from pearl.strategies.pearl import shown_plans

AGENTS = "commaqa"
"""The library whose actions ask agents."""


async def by_analogy(example: Example, shared: EvaluationContext, session: Session) -> Outcome:
    """Search for a decomposition as was learned, by asking the world's agents, and run it.

    Raises:
        InputError: nothing was learned, or the question has no agents.
        RunError: no decomposition came to an end.
    """
    lacking = lacks_learned(shared, example)
    if shared.search is None or lacking:
        raise InputError(f"tmn {lacking}")
    return await _answered(shared.search.with_model, example, session)


async def by_model(example: Example, shared: EvaluationContext, session: Session) -> Outcome:
    """Search for a decomposition as a model proposes that is shown some, and run it.

    Raises:
        InputError: there are no decompositions to show, or the question has no agents.
        ModelError: the model gave no usable answer.
        RunError: no decomposition came to an end.
    """
    lacking = lacks_decompositions(shared, example)
    if lacking or not isinstance(example.data, World):
        raise InputError(f"tmn-model {lacking}")
    decompositions = shown_plans(shared.setups[LIBRARY].demonstrations)
    search = shared.search or HopSearch()
    caller = at_most(session.caller(), shared.limits.calls)
    scorer = LanguageModelScorer(
        caller,
        load_library(AGENTS),
        decompositions,
        search.budget.width,
        example.data.language,
    )
    return await _answered(partial(search.by, scorer), example, session)


def searched(entries: Iterable[Entry]) -> Mapping[str, float]:
    """What a search took, whether it came to an answer or not: ``agent_calls``, how many of them
    no agent could read, and ``hops_tried``; nothing where nothing was searched.

    Args:
        entries: the run's journal.
    """
    found: Mapping[str, int] = next((one.value for one in entries if one.path == SEARCH), {})
    return {name: float(count) for name, count in found.items() if name != "hops"}


def lacks_learned(shared: EvaluationContext, example: Example) -> str:
    """What a search by analogy needs and does not have; empty where it can begin."""
    if shared.search is None or shared.search.model is None:
        return "needs what was learned: name it with --learned FILE."
    return _without_agents(example)


def lacks_decompositions(shared: EvaluationContext, example: Example) -> str:
    """What a search by a model needs and does not have; empty where it can begin."""
    if not shared.setups[LIBRARY].demonstrations:
        return (
            "needs decompositions to show: name their folder with --demos, and --library "
            f"{AGENTS}; those of questions that are evaluated are not shown."
        )
    return _without_agents(example)


def _without_agents(example: Example) -> str:
    if isinstance(example.data, World):
        return ""
    return f"finds no agents to ask question {example.id}: take the data set commaqa."


async def _answered(search: Search, example: Example, session: Session) -> Outcome:
    assert isinstance(example.data, World)
    agents = Agents(example.data)
    finished = await run_strategy(
        Tmn(agents, search, session.journal),
        example.question,
        example.document,
        load_library(AGENTS),
        session.caller(),
        session.context,
        handlers(agents),
    )
    outcome = await whole_text(finished, example, session)
    value = finished.values[finished.outputs[0]]
    return replace(outcome, answer=canonical_json(to_json(value)))
