"""How decompositions are searched for, with what was learned."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from pearl.agents import Agents
from pearl.learning.model import Model, read_model, write_model
from pearl.learning.scorer import ByAnalogy
from pearl.learning.search import Budget, Found, best_first, greedy
from pearl.values import digest

Way: TypeAlias = Literal["greedy", "best-first"]


@dataclass(frozen=True)
class Searching:
    """A search with its scorer.

    Args:
        model: what was learned.
        way: TMN-G or TMN-S.
        budget: what a question may take.
    """

    model: Model
    way: Way = "best-first"
    budget: Budget = field(default_factory=Budget)

    def __call__(self, question: str, agents: Agents) -> Found:
        """Search for a decomposition of one question."""
        search = greedy if self.way == "greedy" else best_first
        return search(question, agents, self._scorer, self.budget)

    @cached_property
    def _scorer(self) -> ByAnalogy:
        return ByAnalogy(self.model)

    @cached_property
    def digest(self) -> str:
        """The hash of all that decides what is found."""
        return digest([write_model(self.model), self.way, repr(self.budget)])


def load_search(path: str, way: Way) -> Searching | None:
    """The search with a file that ``pearl learn`` wrote; None where none is named.

    Raises:
        InputError: the file cannot be used.
    """
    return Searching(read_model(path), way) if path else None
