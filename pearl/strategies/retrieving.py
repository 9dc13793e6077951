"""A retriever as a handler, so that plans can look passages up.

Khot et al., "Decomposed Prompting", ICLR 2023, section 4.4: the decomposer
asks a retriever, a reader of what was found, and in the end a reader of all
that was found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

from pearl.builtins import Given
from pearl.retrieval import DocumentRetriever, Retriever, told_passages
from pearl.runtime.handlers import Handlers, Solve, SolverError
from pearl.source import InputError, Source
from pearl.values import Value, as_text

RETRIEVE = "retrieve"
"""The name by which an action asks for passages: ``body: solver retrieve``."""

PASSAGES = 3
"""Passages that are given where a step does not say how many."""

MOST = 20
"""Passages that a step is given, at most."""


def retrieving(document: Source, retriever: Retriever | None = None) -> Solve:
    """A solver that gives the passages that bear on a query.

    Its arguments are the query and, where there is a second one, how many
    passages are wanted. Its value is a list of texts, best first, each the
    passage to the letter with its title and a colon before it.

    Args:
        document: where to look.
        retriever: where to look instead, as an index of a corpus; None for
            the document.
    """
    searched = DocumentRetriever(document) if retriever is None else retriever

    async def solve(path: str, given: Sequence[Given]) -> Value:
        del path
        query, most = as_text(given[0].value), _most(given[1:])
        try:
            # Reading an index takes its time, and other steps have theirs.
            found = await asyncio.to_thread(searched.search, query, most)
        except InputError as error:
            raise SolverError("solver", str(error)) from None
        return list(told_passages(found))

    return solve


def with_retriever(
    handlers: Handlers, document: Source, retriever: Retriever | None = None
) -> Handlers:
    """Handlers, and beside them a retriever.

    Args:
        handlers: those there are.
        document: as `retrieving` takes it.
        retriever: as `retrieving` takes it.
    """
    solvers = {**handlers.solvers, RETRIEVE: retrieving(document, retriever)}
    return replace(handlers, solvers=MappingProxyType(solvers))


def _most(given: Sequence[Given]) -> int:
    if not given:
        return PASSAGES
    value = given[0].value
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SolverError("solver", f"A retriever gives a whole number of passages, not {value!r}.")
    return min(value, MOST)
