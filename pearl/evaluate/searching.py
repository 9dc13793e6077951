"""How decompositions are searched for, with what was learned."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from pearl.agents import Agents
from pearl.learning.model import Model, read_model, write_model
from pearl.learning.scorer import ByAnalogy
from pearl.learning.search import Budget, Found, Proposer, Way, best_first, greedy, search
from pearl.source import InputError
from pearl.values import digest

__all__ = ["Searching", "Way", "load_search"]


@dataclass(frozen=True)
class Searching:
    """A search, and who proposes.

    Args:
        model: what was learned; None where nothing was.
        way: TMN-G or TMN-S.
        budget: what a question may take.
        learned: the file that the model is from; empty where nothing was learned.
    """

    model: Model | None = None
    way: Way = "best-first"
    budget: Budget = field(default_factory=Budget)
    learned: str = ""

    async def by_analogy(self, question: str, agents: Agents) -> Found:
        """Search for a decomposition of one question, with what was learned.

        Raises:
            InputError: nothing was.
        """
        found = greedy if self.way == "greedy" else best_first
        return found(question, agents, self._scorer, self.budget)

    async def by(self, proposer: Proposer, question: str, agents: Agents) -> Found:
        """Search for a decomposition of one question, with somebody else's proposals."""
        return await search(self.way, question, agents, proposer, self.budget)

    @cached_property
    def _scorer(self) -> ByAnalogy:
        if self.model is None:
            raise InputError("tmn needs what was learned: name it with --learned FILE.")
        return ByAnalogy(self.model)

    @cached_property
    def digest(self) -> str:
        """The hash of all that decides what is found."""
        learned = write_model(self.model) if self.model else ""
        return digest([learned, self.way, repr(self.budget)])


def load_search(path: str, way: Way, budget: Budget | None = None) -> Searching:
    """The search, with a file that ``pearl learn`` wrote where one is named.

    Raises:
        InputError: the file cannot be used.
    """
    return Searching(read_model(path) if path else None, way, budget or Budget(), path)
