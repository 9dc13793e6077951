"""Passages that steps look up: in the document, or in an index that is searched instead of it.

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
from pearl.runtime.binding import StepError
from pearl.runtime.executor import Handlers

PASSAGES = 3
"""Passages that a step is given where it does not say how many."""

MOST = 20
"""The most passages that a step is given."""


def with_retriever(
    handlers: Handlers, document: Source, retriever: Retriever | None = None, passages: int = 0
) -> Handlers:
    """The handlers, with a solver added that looks up the passages that bear on a query.

    The solver's arguments are the query and, optionally, how many passages
    are wanted. Its value is a list of texts, best first: each the passage
    word for word, with its title and a colon before it.

    Args:
        handlers: the handlers of other actions.
        document: what is searched.
        retriever: what is searched instead, such as the index of a corpus; None for the document.
        passages: passages per look-up, whatever the step says; 0 for what it says. Either way no
            more than `MOST` are given.
    """
    searched = DocumentRetriever(document) if retriever is None else retriever

    async def solve(path: str, args: Sequence[Given]) -> Value:
        del path
        most = passages or (args[1].value if len(args) > 1 else PASSAGES)
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise StepError(
                "solver", f"A retriever gives a whole number of passages, not {most!r}."
            )
        return list(await look_up(searched, as_text(args[0].value), min(most, MOST)))

    solvers = {**handlers.solvers, RETRIEVE: solve}
    return replace(handlers, solvers=MappingProxyType(solvers))


async def look_up(searched: Retriever, query: str, most: int) -> list[str]:
    """The passages that bear on a query, best first, as texts.

    Raises:
        StepError: what is searched cannot be read.
    """
    try:
        # Reading an index takes time, and must not block steps that run at the same time.
        passages = await asyncio.to_thread(searched.search, query, most)
    except InputError as error:
        raise StepError("solver", str(error)) from None
    return passage_texts(passages)
