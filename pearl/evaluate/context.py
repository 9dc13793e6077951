"""How decompositions are searched for, with what was learned.

The tools of a file, shared by the questions that are under way.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pearl.commaqa.agents import Agents
from pearl.commaqa.analogy import AnalogyScorer
from pearl.commaqa.model import Model, read_model, write_model
from pearl.commaqa.search import (
    AsyncScorer,
    Budget,
    SearchMode,
    SearchResult,
    best_first,
    greedy,
    search,
)
from pearl.lang.source import InputError, read_source
from pearl.lang.values import digest
from pearl.tools.declared import Search, load_tools, read_tools
from pearl.tools.toolbox import Toolbox


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
    way: SearchMode = "best-first"
    budget: Budget = field(default_factory=Budget)
    learned: str = ""

    async def with_model(self, question: str, agents: Agents) -> SearchResult:
        """Search for a decomposition of one question, with what was learned.

        Raises:
            InputError: nothing was.
        """
        found = greedy if self.way == "greedy" else best_first
        return found(question, agents, self._scorer, self.budget)

    async def by(self, proposer: AsyncScorer, question: str, agents: Agents) -> SearchResult:
        """Search for a decomposition of one question, with somebody else's proposals."""
        return await search(self.way, question, agents, proposer, self.budget)

    @cached_property
    def _scorer(self) -> AnalogyScorer:
        if self.model is None:
            raise InputError("tmn needs what was learned: name it with --learned FILE.")
        return AnalogyScorer(self.model)

    @cached_property
    def digest(self) -> str:
        """The hash of all that decides what is found."""
        learned = write_model(self.model) if self.model else ""
        return digest([learned, self.way, repr(self.budget)])


def load_search(path: str, way: SearchMode, budget: Budget | None = None) -> Searching:
    """The search, with a file that ``pearl learn`` wrote where one is named.

    Raises:
        InputError: the file cannot be used.
    """
    return Searching(read_model(path) if path else None, way, budget or Budget(), path)


@dataclass(eq=False)
class Tooling:
    """A file of tools, and its toolbox while a question needs it.

    Args:
        path: the file.
        digest: the hash of its text, and of the indexes that it names.
    """

    path: str
    digest: str
    _toolbox: Toolbox | None = None
    _users: int = field(default=0, init=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent to a worker without what the environment gave: it reads its own."""
        return Tooling, (self.path, self.digest)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Toolbox]:
        """The tools, for one question; connections are let go when no question has them.

        Raises:
            InputError: the file cannot be used here.
        """
        toolbox = self._toolbox = self._toolbox or load_tools(self.path)
        self._users += 1
        try:
            yield toolbox.afresh()
        finally:
            self._users -= 1
            if not self._users:
                await toolbox.close()


def load_tooling(path: str) -> Tooling | None:
    """The tools of a file; None where none is named.

    Raises:
        InputError: the file cannot be used.
    """
    if not path:
        return None
    toolbox = load_tools(path)
    return Tooling(path, digest([read_source(path, "tools").digest, *_indexes(path)]), toolbox)


def _indexes(path: str) -> Iterator[list[str]]:
    """What decides what the file's searches find; an index may be made anew where it is."""
    from pearl.retrieval.index import open_index

    for one in read_tools(path).tools:
        if isinstance(one.how, Search):
            info = open_index(str(one.how.index)).info
            yield [one.tool.name, info.digest, info.engine]
