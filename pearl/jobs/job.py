"""From what a person asked for to a job that runs, and stops when they say so.

Does the tasks of a job, so that it can be stopped at any time and gone on with.

What an earlier go has done, and what is left.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pearl.jobs.output import Sink, Unwritten
from pearl.jobs.workers import JobProgress, Tasks, Work, WorkerPool, do_all
from pearl.lang.source import InputError
from pearl.lang.values import digest
from pearl.models.base import Model, ModelError, Usage
from pearl.models.middleware.budget import Amount
from pearl.models.middleware.stack import Engine, EngineLimits, start_engine
from pearl.models.prices import Price, Prices, load_prices
from pearl.run.context import UNLIMITED, Context
from pearl.store.history import latest, read_row_keys, read_rows, totals
from pearl.store.store import Store, open_store


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a job.

    Args:
        ids: of the tasks to be done, in order.
        kept: of those whose row of an earlier go holds.
    """

    ids: tuple[str, ...]
    kept: frozenset[str]


async def resume(tasks: Tasks[Any], store: Store, run: str, progress: JobProgress) -> Left:
    """Look at what an earlier go of a run has done.

    A row holds while what it was asked is what it was.

    Args:
        tasks: all there are.
        store: where the run is kept.
        run: its name.
        progress: to count what holds in.

    Raises:
        InputError: a task cannot be read.
    """
    kept = _holding(tasks, store, run)
    await store.flush()
    for row in stored_rows(store, run, kept):
        progress.count_row(row)
    progress.before = progress.finished
    return Left(tuple(one for one in tasks.ids if one not in kept), kept)


def stored_rows(
    store: Store, run: str, only: frozenset[str] | None = None
) -> Iterator[dict[str, Any]]:
    """A run's rows in the order of the tasks, all of them or some."""
    rows = read_rows(store.engine, run)
    return (row for name, row in rows if only is None or name in only)


def _holding(tasks: Tasks[Any], store: Store, run: str) -> frozenset[str]:
    earlier = read_row_keys(store.engine, run)
    if not earlier:
        return frozenset()
    holds: set[str] = set()
    known = tuple(one for one in tasks.ids if one in earlier)
    for task in tasks.read(known):
        row = earlier[task.id]
        if row.key == task.key:
            if row.position != task.position:
                store.move_row(run, task.id, task.position)
            if row.status == "answered":
                holds.add(task.id)
        else:
            store.drop_row(run, task.id)
    for name in earlier.keys() - set(known):
        store.drop_row(run, name)
    return frozenset(holds)


async def run_tasks(tasks: Tasks[Any], pool: WorkerPool, sink: Sink) -> None:
    """Do every task that has no row yet.

    A task that fails leaves the others alone; failed ones of an earlier go
    are tried again.

    Args:
        tasks: all there are.
        pool: who does them.
        sink: where rows go.

    Raises:
        InputError: the rows cannot be written.
        ModelError: nothing more can be asked (`Engine.stopped` says why), or
            a task cannot be read any more; what was done until then is kept.
    """
    left = await resume(tasks, pool.store, pool.run, pool.progress)
    written = sink(stored_rows(pool.store, pool.run, left.kept))
    pool.changed(pool.progress)
    try:
        await do_all(pool, tasks.read(left.ids), written.add)
    finally:
        await pool.store.flush()
        written.close(stored_rows(pool.store, pool.run))
    stopped = pool.engine.stopped
    if stopped is not None:
        raise ModelError(stopped.reason, str(stopped))


CONCURRENT_TASKS = 64
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
class JobSettings:
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
    limits: EngineLimits = field(default_factory=EngineLimits)
    cache: bool = True
    restart: bool = False
    scheduler: str = ""
    grace: float = 30.0
    together: int = CONCURRENT_TASKS


def start(
    job: Job, settings: JobSettings, changed: Callable[[JobProgress], None] = lambda _: None
) -> JobProgress:
    """Run a job to its end, or until it is stopped; or go on with it.

    Args:
        job: what to do.
        settings: what to do it with.
        changed: told of each change.

    Returns:
        What it came to.

    Raises:
        InputError: something given cannot be used; nothing was sent.
        ModelError: it was stopped: by the person, a budget, or an endpoint
            that refuses everything. What was done until then is kept.
    """
    store = open_store(settings.store)
    try:
        run = _run(job, settings, store)
        price = _price(settings)
        progress = JobProgress(run, len(job.tasks.ids), price)
        spent = totals(store.engine, run).spent
        if settings.scheduler:
            _on_cluster(job, settings, store, progress, changed, spent)
        else:
            scope = "" if settings.cache else run
            engine = start_engine(settings.model, store, scope, settings.limits, price, spent)
            together = settings.limits.concurrency or settings.together
            pool = WorkerPool(
                job.work, job.context, engine, store, run, together, progress, changed
            )
            asyncio.run(_until_stopped(job, pool, settings))
        store.end(run)
        return progress
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


def _price(settings: JobSettings) -> Price | None:
    price = settings.prices.get(settings.model.name)
    if settings.limits.max_cost is not None and price is None:
        raise InputError(
            f"No price is known for {settings.model.name}, so --max-cost cannot be kept: give one "
            "with --prices, or use --max-tokens."
        )
    return price


def _on_cluster(
    job: Job,
    settings: JobSettings,
    store: Store,
    progress: JobProgress,
    changed: Callable[[JobProgress], None],
    spent: Usage,
) -> None:
    from pearl.jobs.cluster import Order, run_on_cluster
    from pearl.store.store import StoreLedger

    place = settings.store if "://" in settings.store else str(Path(settings.store).resolve())
    price = progress.price
    cost = price.cost(spent) if price else 0
    tokens = spent.prompt_tokens + spent.completion_tokens
    StoreLedger(store, progress.run, settings.limits.ceiling).open(Amount(tokens, cost))
    scope = "" if settings.cache else progress.run
    name, identity = settings.model.name, settings.model.identity
    order = Order(
        progress.run, place, scope, name, identity, job.work, job.context, settings.limits, price
    )
    run_on_cluster(settings.scheduler, job.tasks, order, store, progress, changed, job.sink)


def _run(job: Job, settings: JobSettings, store: Store) -> str:
    """The run to go on with, or a new one."""
    known = {
        **job.known,
        "kind": job.kind,
        "model": settings.model.identity,
        "cache": settings.cache,
    }
    fingerprint = digest(known)
    found = None if settings.restart else latest(store.engine, fingerprint, time.time())
    if found is not None:
        store.resume(found.name)
        return found.name
    head = {**job.head, "model": settings.model.name}
    return store.start(job.kind, head, fingerprint, own=not settings.cache)


async def _until_stopped(job: Job, pool: WorkerPool, settings: JobSettings) -> None:
    work = asyncio.create_task(run_tasks(job.tasks, pool, job.sink))
    loop = asyncio.get_running_loop()
    stopping = _Stopping(pool.engine, work, settings.grace)
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
        await settings.model.close()


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
