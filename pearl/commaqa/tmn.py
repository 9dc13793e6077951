"""Talking to agents: decompositions that are searched for, and then run as a plan.

Khot et al., "Hey AI, Can You Solve Complex Tasks by Talking to Agents?",
Findings of ACL 2022, section 4: TMN-G takes the best proposal at each hop,
TMN-S searches best first. What was tried in vain is in the journal and not in
the plan.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from pearl.commaqa.agents import Agents
from pearl.commaqa.decomposition import print_hops, to_plan
from pearl.commaqa.search import Found
from pearl.run.journal import Journal
from pearl.run.loop import Return, Run, RunError, Steps
from pearl.strategies.pearl import GivenPlan

Search: TypeAlias = Callable[[str, Agents], Awaitable[Found]]
"""Finds a decomposition of a question, by asking agents."""


@dataclass(frozen=True, slots=True)
class Tmn:
    """Searches for a decomposition, and gives its steps.

    Args:
        agents: who is asked.
        search: how, as `pearl.learning.search.search` with somebody who proposes.
        journal: where it is written what the search took.
    """

    agents: Agents
    search: Search
    journal: Journal

    async def next(self, run: Run) -> Steps | Return:
        """All steps of the decomposition that was found.

        Raises:
            ModelError: a model that proposes gave no usable answer.
            RunError: none came to an end.
        """
        if run.plan.steps:
            return await GivenPlan(run.plan).next(run)
        found = await self.search(run.question, self.agents)
        told = {"agent_calls": found.calls, "hops_tried": found.tried}
        self.journal.decide("search", {**told, "hops": print_hops(found.hops)})
        if found.answer is None:
            raise RunError(
                f"No decomposition came to an end, of {found.tried} hops that were tried: learn "
                "from more questions, or search wider."
            )
        return await GivenPlan(to_plan(found.hops, run.question)).next(run)
