"""Agents as solvers, so that plans can ask them."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from pearl.agents.agents import Agents
from pearl.builtins import Given
from pearl.runtime.handlers import Handlers, Solve, SolverError
from pearl.values import Value, as_text


def handlers(agents: Agents) -> Handlers:
    """What a run is handed so that its steps can ask a world's agents.

    Args:
        agents: the agents; the actions that ask them have ``body: solver`` and
            the agent's name.
    """
    names = agents.world.language.agents
    return Handlers(MappingProxyType({name: _solver(agents, name) for name in names}))


def _solver(agents: Agents, name: str) -> Solve:
    async def solve(path: str, given: Sequence[Given]) -> Value:
        del path
        question = as_text(given[0].value)
        answer = agents.ask(name, question)
        if answer is None:
            raise SolverError("no-answer", f"The agent {name} has no answer to: {question[:80]}")
        return answer

    return solve
