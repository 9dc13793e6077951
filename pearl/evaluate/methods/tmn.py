"""Talking to agents, with what was learned of decomposing (CommaQA, section 4)."""

from __future__ import annotations

from pearl.agents import Agents, World, handlers
from pearl.evaluate.datasets import Example
from pearl.evaluate.methods.base import Kit, Method, Outcome
from pearl.library import load_library
from pearl.runtime import Caller, run_strategy
from pearl.session import Session
from pearl.source import InputError
from pearl.strategies.commaqa import Tmn
from pearl.syntax import print_plan
from pearl.values import canonical_json, to_json


async def answer(example: Example, kit: Kit, session: Session) -> Outcome:
    """Search for a decomposition by asking the world's agents, and run it.

    Raises:
        InputError: nothing was learned, or the question has no agents.
        RunError: no decomposition came to an end.
    """
    if kit.search is None:
        raise InputError("tmn needs what was learned: name it with --learned FILE.")
    if not isinstance(example.data, World):
        raise InputError(f"Question {example.id} has no agents to ask: take the data set commaqa.")
    agents = Agents(example.data)
    caller = Caller(session.engine.ask, session.engine.identity, session.journal)
    finished = await run_strategy(
        Tmn(agents, kit.search, session.journal),
        example.question,
        example.document,
        load_library("commaqa"),
        caller,
        session.context,
        handlers(agents),
    )
    value = canonical_json(to_json(finished.values[finished.outputs[0]]))
    calls = {"agent_calls": float(agents.calls)}
    return Outcome(value, finished.text, print_plan(finished.plan), measures=calls)


METHOD = Method("tmn", "Agents are asked, hop by hop, as was learned from other questions.", answer)
