"""From what a person asked for to a job that runs, and stops when they say so."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pearl.context import UNLIMITED, Context
from pearl.engine import Amount, Engine, Limits, start_engine
from pearl.jobs.crew import Crew
from pearl.jobs.output import Sink, Unwritten
from pearl.jobs.resume import stored_rows
from pearl.jobs.run import run_tasks
from pearl.jobs.tally import Tally
from pearl.jobs.task import Tasks, Work
from pearl.llm import Model, ModelError, Usage
from pearl.llm.prices import Price, Prices, load_prices
from pearl.source import InputError
from pearl.store import Store, open_store
from pearl.store.history import latest, totals
from pearl.values import digest

TOGETHER = 64
"""Tasks under way at a time where the number of calls is left to adapt."""


@dataclass(frozen=True)
class Job:
    """What is to be done.

    Args:
        kind: the command's name.
        head: what is run on what, for a person, as JSON data.
        known: by what the same job is known again, beside the model.
        tasks: its pieces.
        work: what is done with each.
        context: how much fits a prompt, and what to do with a longer document.
        sink: where rows go beside the store.
    """

    kind: str
    head: dict[str, Any]
    known: dict[str, Any]
    tasks: Tasks[Any]
    work: Work
    context: Context = UNLIMITED
    sink: Sink = Unwritten


@dataclass(frozen=True)
class Means:
    """What it is done with.

    Args:
        model: who answers.
        store: where runs and replies are kept: a file's path or a database's address.
        prices: what models cost.
        limits: how fast, and how much of it.
        cache: whether replies of other runs count.
        restart: whether to begin a new run where there is one to go on with.
        scheduler: a Dask scheduler's address, or ``local``; empty for this process.
        grace: seconds that calls under way get to finish after Ctrl-C.
        together: tasks under way at a time, at most.
    """

    model: Model
    store: str
    prices: Prices = field(default_factory=load_prices)
    limits: Limits = field(default_factory=Limits)
    cache: bool = True
    restart: bool = False
    scheduler: str = ""
    grace: float = 30.0
    together: int = TOGETHER


def start(job: Job, means: Means, changed: Callable[[Tally], None] = lambda _: None) -> Tally:
    """Run a job to its end, or until it is stopped; or go on with it.

    Args:
        job: what to do.
        means: what to do it with.
        changed: told of each change.

    Returns:
        What it came to.

    Raises:
        InputError: something given cannot be used; nothing was sent.
        ModelError: it was stopped: by the person, a budget, or an endpoint
            that refuses everything. What was done until then is kept.
    """
    store = open_store(means.store)
    try:
        run = _run(job, means, store)
        price = _price(means)
        tally = Tally(run, len(job.tasks.ids), price)
        spent = totals(store.engine, run).spent
        if means.scheduler:
            _on_cluster(job, means, store, tally, changed, spent)
        else:
            scope = "" if means.cache else run
            engine = start_engine(means.model, store, scope, means.limits, price, spent)
            together = means.limits.concurrency or means.together
            crew = Crew(job.work, job.context, engine, store, run, together, tally, changed)
            asyncio.run(_until_stopped(job, crew, means))
        store.end(run)
        return tally
    finally:
        store.close()


def read_results(place: str, run: str) -> Iterator[dict[str, Any]]:
    """A run's rows, in the order of its tasks.

    Args:
        place: the store's.
        run: the run's name.
    """
    store = open_store(place)
    try:
        yield from stored_rows(store, run)
    finally:
        store.close()


def _price(means: Means) -> Price | None:
    price = means.prices.get(means.model.name)
    if means.limits.max_cost is not None and price is None:
        raise InputError(
            f"No price is known for {means.model.name}, so --max-cost cannot be kept: give one "
            "with --prices, or use --max-tokens."
        )
    return price


def _on_cluster(
    job: Job,
    means: Means,
    store: Store,
    tally: Tally,
    changed: Callable[[Tally], None],
    spent: Usage,
) -> None:
    from pearl.jobs.cluster import run_on_cluster
    from pearl.jobs.hand import Order
    from pearl.store.ledger import StoreLedger

    place = means.store if "://" in means.store else str(Path(means.store).resolve())
    price = tally.price
    cost = price.cost(spent) if price else 0
    tokens = spent.prompt_tokens + spent.completion_tokens
    StoreLedger(store, tally.run, means.limits.ceiling).open(Amount(tokens, cost))
    scope = "" if means.cache else tally.run
    name, identity = means.model.name, means.model.identity
    order = Order(
        tally.run, place, scope, name, identity, job.work, job.context, means.limits, price
    )
    run_on_cluster(means.scheduler, job.tasks, order, store, tally, changed, job.sink)


def _run(job: Job, means: Means, store: Store) -> str:
    """The run to go on with, or a new one."""
    known = {
        **job.known,
        "kind": job.kind,
        "model": means.model.identity,
        "cache": means.cache,
    }
    fingerprint = digest(known)
    found = None if means.restart else latest(store.engine, fingerprint, time.time())
    if found is not None:
        store.resume(found.name)
        return found.name
    head = {**job.head, "model": means.model.name}
    return store.start(job.kind, head, fingerprint, own=not means.cache)


async def _until_stopped(job: Job, crew: Crew, means: Means) -> None:
    work = asyncio.create_task(run_tasks(job.tasks, crew, job.sink))
    loop = asyncio.get_running_loop()
    stopping = _Stopping(crew.engine, work, means.grace)
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, stopping)
    try:
        await work
    except asyncio.CancelledError:
        raise ModelError("stopped", "Stopped; calls under way were cut off.") from None
    finally:
        for number in signals:
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.remove_signal_handler(number)
        await means.model.close()


class _Stopping:
    """What Ctrl-C does: no new calls, some time for those under way; the second time, no time."""

    def __init__(self, engine: Engine, work: asyncio.Task[None], grace: float) -> None:
        self._engine = engine
        self._work = work
        self._grace = grace
        self._asked = False

    def __call__(self) -> None:
        if self._asked:
            self._work.cancel()
            return
        self._asked = True
        self._engine.stop(ModelError("stopped", "Stopped."))
        asyncio.get_running_loop().call_later(self._grace, self._work.cancel)
