"""A session: the model in its layers, a journal in a store, and how much fits a prompt."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pearl.lang.errors import InputError
from pearl.lang.library import Library
from pearl.lang.source import Source
from pearl.models.base import Model, ModelError, TokenCounter, env_number
from pearl.models.constraints import Mode, choose_mode
from pearl.models.middleware.stack import Engine, EngineLimits, check_priced, start_engine
from pearl.models.routing import Models, planner_of, readers_of, sampling_of
from pearl.models.tokens import NO_PRICES, Prices, counter_of, load_prices
from pearl.runtime.calls import Caller, Journal, Watch
from pearl.runtime.context import UNLIMITED, Context, Policy, learned_window, learning
from pearl.runtime.loop import RunError
from pearl.runtime.telemetry import tell

Began = Callable[[str], None]
"""Called with the run's name once it has one."""


@dataclass(frozen=True)
class Session:
    """The model in its layers, the journal of one run or question, and how much fits a prompt.

    Args:
        engine: the model in its layers.
        journal: where the run is recorded.
        context: how much fits a prompt.
        examples: the most worked examples that a prompt for structured output shows.
        planning: how much fits the planner's prompt.
    """

    engine: Engine
    journal: Journal
    context: Context = UNLIMITED
    examples: int = 0
    planning: Context = UNLIMITED

    def caller(self, watch: Watch | None = None) -> Caller:
        """A caller that asks the model and writes the journal, and tells ``watch`` of each call."""
        engine, journal = self.engine, self.journal
        planner = engine.model.planner if isinstance(engine.model, Models) else None
        return Caller(
            learning(engine.ask, self.context, journal.decide, planner, self.planning),
            engine.model.identity,
            journal,
            watch,
            engine.forms,
            engine.constrain == "always",
            self.examples,
            engine.model if isinstance(engine.model, Models) else None,
            context=self.context,
            planning=self.planning,
        )


def context_for(
    model: Model, policy: Policy = "auto", window: int | None = None, prices: Prices | None = None
) -> Context:
    """How much fits a model's prompt.

    Args:
        model: the model that answers; of several, those that are shown documents, of which the
            smallest window counts.
        policy: what to do with a document that does not fit.
        window: tokens; by default the window that the model itself reports, ``PEARL_CONTEXT``, or
            the one in the price table.
        prices: the price table; by default the one that `load_prices` finds.

    Raises:
        InputError: a setting is wrong, or the window is larger than the model's own, or too small
            for a reply.
    """
    if isinstance(model, Models):
        contexts = [context_for(reader, policy, window, prices) for reader in readers_of(model)]
        least = min(contexts, key=lambda context: context.window or math.inf)
        return replace(least, learned=learned_window(model.identity))
    own = model.window if isinstance(model, TokenCounter) else None
    if window and own and window > own:
        raise InputError(f"--window is {window:,}, and {model.name} has {own:,}: set it lower.")
    price = None if window or own else (prices or load_prices()).get(model.name)
    size = window or own or env_number("PEARL_CONTEXT") or (price.window if price else None)
    reply, learned = env_number("PEARL_MAX_TOKENS") or 0, learned_window(model.identity)
    return Context(policy, size, reply, counter_of(model), learned)


def planning_context(model: Model, context: Context) -> Context:
    """How much fits the planner's prompt.

    A planner that runs in this process is given a quarter of its window, or 2,048 tokens if that is
    more: it would take a minute to read the actions and examples of a whole library.

    Args:
        model: the model that answers, or several `Models`.
        context: how much fits a prompt of the models that are shown documents.
    """
    planner = planner_of(model)
    own = context if planner is model else context_for(planner, context.policy)
    if not (isinstance(planner, TokenCounter) and own.window):
        return own
    return replace(own, window=max(own.window // 4, min(own.window, 2048)), reply=0, whole=own)


@asynccontextmanager
async def open_session(
    model: Model,
    head: dict[str, Any],
    kind: str,
    store: str | Path | None = None,
    *,
    context: Context = UNLIMITED,
    cache: bool = True,
    began: Began | None = None,
    constrain: Mode | None = None,
    limits: EngineLimits | None = None,
) -> AsyncIterator[Session]:
    """Open a session for one run; it closes the model and the store at the end.

    Args:
        model: the model that answers.
        head: what is run on what, as JSON data.
        kind: ``ask``, ``run`` or ``plan``.
        store: where runs and replies are kept: a file's path or a database's
            address; None keeps nothing.
        context: how much fits a prompt, and what to do with a longer document.
        cache: whether to reuse the replies of earlier runs.
        began: called with the run's name.
        constrain: whether replies are held to grammars and schemas; None as for `choose_mode`.
        limits: limits of the calls and of what they cost; None for the defaults.

    Raises:
        InputError: the store cannot be used, or a setting is wrong.
    """
    mode, limits, prices = choose_mode(constrain), limits or EngineLimits(), NO_PRICES
    if limits.max_cost is not None:
        prices = load_prices()
        check_priced(limits, model, prices)
    head = {**head, **model_head(model, mode)}
    context = replace(context, learned=learned_window(model.identity))
    opened, run, journal = None, "", Journal()
    if store is not None:
        # The database's library takes long to load.
        from pearl.store.store import open_store

        opened = open_store(str(store))
    try:
        if opened:
            run = opened.start(kind, head, own=not cache)
            journal = opened.journal(run)
            if began:
                began(run)
        journal.decide("run", head)
        scope = "" if cache else run
        engine = start_engine(model, opened, scope, limits, prices, constrain=mode)
        planning = planning_context(model, context)
        yield Session(engine, journal, context, planning=planning)
        if opened:
            opened.end(run)
            await opened.flush()
    except (ModelError, RunError):
        # A run without an answer has ended all the same; an interrupted one can be resumed.
        if opened:
            opened.end(run)
        raise
    finally:
        if opened:
            opened.close()
        await model.close()
        tell(kind, journal, model)


def heading(
    question: str,
    document: Source | None,
    library: Library,
    model: Model,
    shown: int | None = None,
    options: Sequence[str] = (),
) -> dict[str, Any]:
    """The first entry of a journal: what was run on what. ``shown`` is the number of
    demonstrations; it is None for a strategy that takes none."""
    head: dict[str, Any] = {"question": question}
    if options:
        head["options"] = list(options)
    if document:
        size = len(document.text)
        head["document"] = f"{document.name} ({size} characters, sha256 {document.digest})"
    head["library"] = ", ".join(library.names)
    if shown is not None:
        head["demonstrations"] = shown
    head |= model_head(model)
    head["pearl"] = _version("pearl")
    return head


def model_head(model: Model, constrain: Mode | None = None) -> dict[str, str]:
    """The model of a run, and where it samples, how replies are sampled and constrained."""
    sampling = sampling_of(model)
    settings = {"sampling": sampling, "constrain": constrain or ""} if sampling else {}
    return {"model": model.name, **{key: value for key, value in settings.items() if value}}


_version = cache(version)  # The package's metadata is read from the disk each time.
