"""Talking to agents: hop by hop, as was learned or as a model proposes (CommaQA, section 4)."""

from __future__ import annotations

from functools import partial

from pearl.commaqa.agents import Agents, handlers
from pearl.commaqa.tmn import LanguageModelScorer, Search, Tmn
from pearl.commaqa.world import World
from pearl.evaluate.context import Searching
from pearl.evaluate.datasets.base import Example
from pearl.evaluate.methods.base import LIBRARY, Kit, Method, Outcome
from pearl.lang.library import load_library
from pearl.lang.printer import print_plan
from pearl.lang.source import InputError
from pearl.lang.values import canonical_json, to_json
from pearl.run.calls import at_most
from pearl.run.loop import run_strategy
from pearl.session import Session
from pearl.strategies.pearl import shown_plans

AGENTS = "commaqa"
"""The library whose actions ask agents."""


async def answer(example: Example, kit: Kit, session: Session) -> Outcome:
    """Search for a decomposition as was learned, by asking the world's agents, and run it.

    Raises:
        InputError: nothing was learned, or the question has no agents.
        RunError: no decomposition came to an end.
    """
    lacking = _lacks(kit, example)
    if kit.search is None or lacking:
        raise InputError(f"tmn {lacking}")
    return await _answered(kit.search.with_model, example, session)


def _lacks(kit: Kit, example: Example) -> str:
    if kit.search is None or kit.search.model is None:
        return "needs what was learned: name it with --learned FILE."
    return _without_agents(example)


def _without_agents(example: Example) -> str:
    if isinstance(example.data, World):
        return ""
    return f"finds no agents to ask question {example.id}: take the data set commaqa."


def _lacks_plans(kit: Kit, example: Example) -> str:
    if not kit.plannings[LIBRARY].demonstrations:
        return (
            "needs decompositions to show: name their folder with --demos, and --library "
            f"{AGENTS}; those of questions that are evaluated are not shown."
        )
    return _without_agents(example)


async def answer_by_model(example: Example, kit: Kit, session: Session) -> Outcome:
    """Search for a decomposition as a model proposes that is shown some, and run it.

    Raises:
        InputError: there are no decompositions to show, or the question has no agents.
        ModelError: the model gave no usable answer.
        RunError: no decomposition came to an end.
    """
    lacking = _lacks_plans(kit, example)
    if lacking:
        raise InputError(f"tmn-model {lacking}")
    shown = shown_plans(kit.plannings[LIBRARY].demonstrations)
    searching = kit.search or Searching()
    asking = session.caller()
    caller = at_most(asking, kit.limits.calls)
    proposer = LanguageModelScorer(caller, load_library(AGENTS), shown, searching.budget.width)
    return await _answered(partial(searching.by, proposer), example, session)


async def _answered(search: Search, example: Example, session: Session) -> Outcome:
    assert isinstance(example.data, World)
    agents = Agents(example.data)
    caller = session.caller()
    finished = await run_strategy(
        Tmn(agents, search, session.journal),
        example.question,
        example.document,
        load_library(AGENTS),
        caller,
        session.context,
        handlers(agents),
    )
    value = canonical_json(to_json(finished.values[finished.outputs[0]]))
    calls = {"agent_calls": float(agents.calls)}
    return Outcome(value, finished.text, print_plan(finished.plan), measures=calls)


METHOD = Method(
    "tmn",
    "Agents are asked, hop by hop, as was learned from other questions.",
    answer,
    lacks=_lacks,
)
BY_MODEL = Method(
    "tmn-model",
    "Agents are asked, hop by hop, as the model proposes.",
    answer_by_model,
    lacks=_lacks_plans,
    needs_model=True,
)
