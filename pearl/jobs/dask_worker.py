"""A Dask worker's side of a job on a cluster: its orders, and how it does a chunk of tasks."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError
from concurrent.futures import Future as ConcurrentFuture
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import dask
from dask.utils import parse_timedelta
from distributed import Reschedule, Worker, WorkerPlugin, get_worker

from pearl.jobs.job import CONCURRENT_TASKS
from pearl.jobs.workers import JobProgress, Task, Work, WorkerPool
from pearl.lang.errors import InputError
from pearl.models.base import ModelError
from pearl.models.constraints import Mode
from pearl.models.middleware.budget import Ceiling
from pearl.models.middleware.stack import EngineLimits, start_engine
from pearl.models.routing import ModelNames, readers_of
from pearl.models.tokens import Prices, counter_of
from pearl.runtime.context import Context, learned_window
from pearl.store.store import StoreLedger, open_store

PATIENCE = parse_timedelta(dask.config.get("distributed.comm.timeouts.connect"))
"""Seconds to wait for a scheduler, for its first worker, and for a worker to shut down: Dask's own
setting, by default 30."""


@dataclass(frozen=True)
class Order:
    """What a worker needs to know of a job.

    Args:
        run: the run's name.
        store: the store's address, the same for all workers.
        scope: the run whose cached replies count; empty for those of all runs.
        models: the names of the models that answer.
        identity: all that decides the models' answers, as the client sees it.
        work: what is done with each task.
        context: how much fits a prompt.
        limits: one worker's share of the limits, but the whole budget.
        prices: the price table.
        constrain: whether replies are held to grammars and schemas.
    """

    run: str
    store: str
    scope: str
    models: ModelNames
    identity: str
    work: Work
    context: Context
    limits: EngineLimits
    prices: Prices
    constrain: Mode = "never"


@dataclass(frozen=True)
class ChunkResult:
    """The result of a chunk.

    Args:
        rows: the rows of the tasks that were finished.
        progress: the calls that were made.
        stopped: the reason and message if no more calls can be made; else None.
    """

    rows: tuple[dict[str, Any], ...]
    progress: JobProgress
    stopped: tuple[str, str] | None


class DaskWorker(WorkerPlugin):  # type: ignore[misc]
    """A Dask worker's side: one event loop, one engine and one store for all its chunks.

    Dask installs it on every worker, including those that join later.
    """

    def __init__(self, order: Order) -> None:
        self._order = order
        self._pool: WorkerPool | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def setup(self, worker: Worker) -> None:
        """Called by Dask when the worker joins."""
        self._lock = threading.Lock()
        self._chunks: dict[str, ConcurrentFuture[ChunkResult]] = {}
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="pearl", daemon=True).start()

    async def teardown(self, worker: Worker) -> None:
        """Called by Dask when the job is over or begun again; cancels chunks under way."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is None:
            return
        closing = asyncio.run_coroutine_threadsafe(self._close(), loop)
        # The loop stops only afterwards, or threads that wait for a chunk would wait forever.
        closing.add_done_callback(lambda _: loop.call_soon_threadsafe(loop.stop))
        with suppress(Exception):
            await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(closing)), PATIENCE)

    def transition(self, key: str, start: str, finish: str, **_: object) -> None:
        """Called by Dask as a task's state changes: cancels a chunk that the client no longer waits
        for, as it was killed, say."""
        if finish == "released" and key in self._chunks:
            self._chunks[key].cancel()

    def do(self, key: str, tasks: tuple[Task[Any], ...]) -> ChunkResult:
        """Do a chunk's tasks; ``key`` is Dask's name for the chunk.

        Raises:
            Reschedule: the chunk was cancelled; Dask gives it to another worker if still wanted.
        """
        # Under the lock, as `teardown` cancels only what the loop was given before it closes.
        with self._lock:
            if self._loop is None:
                raise Reschedule
            chunk = asyncio.run_coroutine_threadsafe(self._do(tasks), self._loop)
        self._chunks[key] = chunk
        try:
            return chunk.result()
        except CancelledError:
            raise Reschedule from None
        finally:
            del self._chunks[key]

    def stop(self, reason: str, message: str) -> None:
        """Let calls under way finish, and make no further ones."""
        if self._loop is not None:
            error = ModelError(reason, message)
            self._loop.call_soon_threadsafe(lambda: self._open().engine.stop(error))

    async def _do(self, tasks: tuple[Task[Any], ...]) -> ChunkResult:
        pool = self._open()
        rows: list[dict[str, Any]] = []
        progress = JobProgress(self._order.run, len(tasks), model=pool.engine.model.name)
        size = min(len(tasks), pool.size)
        await replace(pool, size=size, progress=progress).do_all(iter(tasks), rows.append)
        stopped = pool.engine.stopped
        return ChunkResult(
            tuple(rows), progress, (stopped.reason, str(stopped)) if stopped else None
        )

    def _open(self) -> WorkerPool:
        """The pool that does the chunks; the first chunk opens its engine and store."""
        if self._pool is not None:
            return self._pool
        order = self._order
        model = order.models.choose()
        if model.identity != order.identity:
            raise InputError(
                f"A worker would ask {model.identity} instead of {order.identity}: set "
                "OPENAI_BASE_URL and the other settings there as they are here."
            )
        store = open_store(order.store)
        limited = order.limits.ceiling != Ceiling()
        engine = start_engine(
            model,
            store,
            order.scope,
            order.limits,
            order.prices,
            ledger=StoreLedger(store, order.run, order.limits.ceiling) if limited else None,
            constrain=order.constrain,
        )
        # The cache of token counts is keyed by the counting function, which must be this process's.
        count, learned = counter_of(readers_of(model)[0]), learned_window(order.identity)
        context = replace(order.context, count=count, learned=learned)
        size = order.limits.concurrency or CONCURRENT_TASKS
        unused = JobProgress(order.run, 0)
        self._pool = WorkerPool(order.work, context, engine, store, size, unused)
        return self._pool

    async def _close(self) -> None:
        chunks = asyncio.all_tasks() - {asyncio.current_task()}
        for chunk in chunks:
            chunk.cancel()
        await asyncio.gather(*chunks, return_exceptions=True)
        if self._pool is not None:
            await self._pool.engine.model.close()
            self._pool.store.close()


def do_chunk(plugin: str, tasks: tuple[Task[Any], ...]) -> ChunkResult:
    """Do a chunk of tasks; Dask calls this on a worker."""
    dask_worker = get_worker()
    worker: DaskWorker = dask_worker.plugins[plugin]
    return worker.do(dask_worker.get_current_task(), tasks)


def stop_worker(plugin: str, reason: str, message: str, dask_worker: Worker) -> None:
    """Stop making calls; Dask calls this on every worker."""
    dask_worker.plugins[plugin].stop(reason, message)
