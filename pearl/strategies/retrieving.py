"""Passages that steps look up: in the document, or in what is searched instead of it.

Khot et al., "Decomposed Prompting", ICLR 2023, section 4.4.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

from pearl.lang.ast import RETRIEVE
from pearl.lang.builtins import Given
from pearl.lang.errors import InputError
from pearl.lang.source import Source
from pearl.lang.values import Value, as_text
from pearl.retrieval.retriever import DocumentRetriever, Retriever, passage_texts
from pearl.runtime.binding import SolverError
from pearl.runtime.executor import Handlers

PASSAGES = 3
"""Passages that are given where a step does not say how many."""

MOST = 20
"""Passages that a step is given, at most."""


def with_retriever(
    handlers: Handlers, document: Source, retriever: Retriever | None = None, passages: int = 0
) -> Handlers:
    """Handlers, and beside them a solver that gives the passages that bear on a query.

    Its arguments are the query and, where there is a second one, how many
    passages are wanted. Its value is a list of texts, best first, each the
    passage to the letter with its title and a colon before it.

    They are of the document, or of what the retriever searches instead, as an index of a corpus.
    Where ``passages`` is not 0, so many are given, whatever a step says.
    """
    searched = DocumentRetriever(document) if retriever is None else retriever

    async def solve(path: str, args: Sequence[Given]) -> Value:
        del path
        most = passages or (args[1].value if len(args) > 1 else PASSAGES)
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise SolverError(
                "solver", f"A retriever gives a whole number of passages, not {most!r}."
            )
        return list(await look_up(searched, as_text(args[0].value), min(most, MOST)))

    solvers = {**handlers.solvers, RETRIEVE: solve}
    return replace(handlers, solvers=MappingProxyType(solvers))


async def look_up(searched: Retriever, query: str, most: int) -> list[str]:
    """The passages that bear on a query, best first, as texts.

    Raises:
        SolverError: what is searched cannot be read.
    """
    try:
        # Reading an index takes its time, and other steps have theirs.
        passages = await asyncio.to_thread(searched.search, query, most)
    except InputError as error:
        raise SolverError("solver", str(error)) from None
    return passage_texts(passages)
