"""What a piece of work runs in: the model in its layers, and a journal in a store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pearl.models.base import Model, env_number
from pearl.models.middleware.stack import Engine, start_engine
from pearl.models.tokens import counter, load_prices
from pearl.run.calls import Caller, Journal, Watch
from pearl.run.context import REPLY, UNLIMITED, Context, Policy

Began = Callable[[str], None]
"""Told the run's name once it has one."""


@dataclass(frozen=True)
class Session:
    """The model in its layers, the journal of one run or question, and how much fits a prompt."""

    engine: Engine
    journal: Journal
    context: Context = UNLIMITED

    def caller(self, watch: Watch | None = None) -> Caller:
        """Asks the model, and keeps the journal.

        Args:
            watch: told of each call.
        """
        return Caller(self.engine.ask, self.engine.identity, self.journal, watch)


def context_for(model: Model, policy: Policy = "auto", window: int | None = None) -> Context:
    """How much fits a model's prompt.

    Args:
        model: who answers.
        policy: what to do with a document that does not fit.
        window: tokens; by default ``PEARL_CONTEXT``, or what the table of
            prices says of the model.

    Raises:
        InputError: a setting is wrong, or the window is smaller than a reply.
    """
    price = None if window else load_prices().get(model.name)
    known = window or env_number("PEARL_CONTEXT") or (price.window if price else None)
    return Context(policy, known, env_number("PEARL_MAX_TOKENS") or REPLY, counter(model.name))


@asynccontextmanager
async def open_session(
    model: Model,
    head: dict[str, Any],
    kind: str,
    store: str | None = None,
    *,
    context: Context = UNLIMITED,
    cache: bool = True,
    began: Began | None = None,
) -> AsyncIterator[Session]:
    """Open a session for one run; model and store are let go at the end.

    Args:
        model: who answers.
        head: what is run on what, as JSON data.
        kind: ``ask``, ``run`` or ``plan``.
        store: where runs and replies are kept: a file's path or a database's
            address; None keeps nothing.
        context: how much fits a prompt, and what to do with a longer document.
        cache: whether replies of earlier runs count.
        began: told the run's name.

    Raises:
        InputError: the store cannot be used.
    """
    if store is None:
        journal = Journal()
        journal.decide("run", head)
        try:
            yield Session(start_engine(model), journal, context)
        finally:
            await model.close()
        return
    # The database's library takes long to load.
    from pearl.store.store import open_store

    opened = open_store(store)
    try:
        run = opened.start(kind, head, own=not cache)
        if began:
            began(run)
        journal = opened.journal(run)
        journal.decide("run", head)
        yield Session(start_engine(model, opened, "" if cache else run), journal, context)
        opened.end(run)
    finally:
        opened.close()
        await model.close()
