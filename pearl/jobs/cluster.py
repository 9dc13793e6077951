"""A job on a Dask cluster: in chunks of tasks, with one store for all workers.

API keys are never sent: a worker reads its own environment. Rows, journals, replies and the budget
are in the store, so a worker that dies loses only the calls it had under way.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import dask
from distributed import Client, Future, KilledWorker, LocalCluster, as_completed
from distributed.comm import CommClosedError

from pearl.jobs.dask_worker import PATIENCE, ChunkResult, DaskWorker, Order, do_chunk, stop_worker
from pearl.jobs.job import Job, JobSettings, open_ledger, resume, stored_lines
from pearl.jobs.progress import signals_held
from pearl.jobs.workers import JobProgress, RowsFile, Task, put_row
from pearl.lang.errors import InputError
from pearl.models.base import ModelError
from pearl.models.routing import ModelNames
from pearl.store.store import Store
from pearl.store.totals import last_entry, totals

FAREWELL = 0.2
"""Seconds to wait when disconnecting from a scheduler that may be gone."""

LOCAL = "local"
"""In place of an address: a local cluster that this command starts."""

SMALLEST, LARGEST = 4, 64
"""Limits of the tasks in a chunk; within them, each worker gets several chunks."""

KILLED = (
    "Every worker that began it died: an own function may have ended the process, or it needs more "
    "memory than a worker has."
)
"""The message for a task during which every worker died."""


class ClusterRun:
    """A job that is done on a cluster.

    Args:
        job: its tasks, and the file their rows go to.
        settings: the scheduler's address, as ``tcp://host:8786``, or ``local``; the model; and
            limits, which are for all workers together.
        store: the client's own connection to the store.
        progress: how far the run is.
    """

    def __init__(
        self, job: Job, settings: JobSettings, store: Store, progress: JobProgress
    ) -> None:
        self._job, self._settings = job, settings
        self._store, self._progress = store, progress
        self._plugin = f"pearl-{progress.run}"
        self._client: Client | None = None
        """Set while there are workers that a stop must reach."""
        self._futures: dict[Future, list[str]] = {}
        """The chunks submitted to workers, with the ids of their tasks."""
        self._output: RowsFile | None = None
        self._stopped: ModelError | None = None
        self._telling: asyncio.Task[None] | None = None

    def stop(self, error: ModelError) -> bool:
        """Make no further calls; those under way go on.

        Returns:
            Whether calls may be under way.
        """
        if self._stopped is None:
            self._stopped = error
            if self._client is not None:
                self._telling = asyncio.create_task(self._tell(self._client, error))
        return self._client is not None

    async def _tell(self, client: Client, error: ModelError) -> None:
        # A worker that cannot be reached is gone and makes no calls.
        with suppress(OSError):
            args = (self._plugin, error.reason, str(error))
            await client.run(stop_worker, *args, on_error="ignore")

    async def run(self) -> None:
        """Do every task that has no row yet; cancelling this cancels the calls under way.

        Raises:
            InputError: there is no such cluster, or a worker cannot do its work.
            ModelError: no more calls can be made; finished tasks are kept.
        """
        job, store, run = self._job, self._store, self._progress.run
        open_ledger(store, run, self._settings)
        before = last_entry(store.engine)
        ids, self._output = await resume(job, store, self._progress)
        self._progress.tell()
        try:
            async with _connect(self._settings.scheduler) as client:
                await self._use(client, ids)
        finally:
            if self._output:
                self._output.close(stored_lines(store, run))
        if self._stopped:
            raise self._stopped
        # Counted in the store, as a worker that died has not reported its calls.
        made = totals(store.engine, run, after=before)
        self._progress.models = made.by_model(self._progress.model)

    async def _use(self, client: Client, ids: tuple[str, ...]) -> None:
        """Have a cluster's workers do the tasks of these ids."""
        workers = len(await client.nthreads()) or 1
        order = _order(self._job, self._settings, self._store, self._progress.run, workers)
        size = max(SMALLEST, min(LARGEST, len(ids) // (4 * workers)))
        read = self._job.tasks.read
        try:
            async with asyncio.TaskGroup() as group:
                watch = group.create_task(self._watch(client))
                await client.register_plugin(DaskWorker(order), name=self._plugin)
                self._client = client
                # A chunk fails when its workers die: its tasks are tried again one by one, to find
                # the task that kills them.
                lost = await self._do(client, _chunks(read(ids), size))
                lost = await self._do(client, ((task,) for task in read(lost)))
                for task in read(lost):
                    # If several were lost, another task may have killed this one's worker, so it is
                    # tried once more, alone.
                    if len(lost) == 1 or await self._do(client, iter([(task,)])):
                        row = self._job.fail(task, ModelError("worker", KILLED))
                        put_row(self._store, self._progress.run, task, row)
                        await self._store.flush()
                        self._count([row])
                watch.cancel()
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            # A scheduler that is gone can no longer reach any workers.
            if client.status == "running":
                with suppress(OSError, TimeoutError, ValueError):
                    async with asyncio.timeout(PATIENCE):
                        await client.cancel(list(self._futures))
                        await client.unregister_worker_plugin(self._plugin)

    async def _do(self, client: Client, chunks: Iterator[tuple[Task[Any], ...]]) -> list[str]:
        """Do chunks of tasks, each wherever there is room, and give the ids of the tasks in chunks
        whose workers kept dying."""
        if self._stopped:
            return []
        self._futures = {}
        for chunk in chunks:
            future = client.submit(do_chunk, self._plugin, chunk, pure=False)
            self._futures[future] = [task.id for task in chunk]
            # Reading tasks may take long; meanwhile the event loop must go on.
            await asyncio.sleep(0)
        lost: list[str] = []
        async for future in as_completed(self._futures, loop=client.loop):
            if future.cancelled():
                raise ConnectionError
            try:
                result: ChunkResult = await future
            except KilledWorker:
                lost += self._futures[future]
                continue
            self._progress.add_calls(result.progress)
            self._count(result.rows)
            if result.stopped:
                self.stop(ModelError(*result.stopped))
        return lost

    def _count(self, rows: Sequence[dict[str, Any]]) -> None:
        """Add rows, which are in the store, to the job's file and to its progress."""
        for row in rows:
            if self._output:
                self._output.add(row)
            self._progress.count_row(row)
        self._progress.tell()

    async def _watch(self, client: Client) -> None:
        """Watch that there are workers; a `ModelError` where there has been none for `PATIENCE`
        seconds."""
        seen = time.monotonic()
        while time.monotonic() - seen < PATIENCE:
            await asyncio.sleep(PATIENCE / 10)
            # A scheduler that is gone is noticed by whatever waits for it.
            with suppress(OSError):
                if client.status != "running" or await client.nthreads():
                    seen = time.monotonic()
        address = self._settings.scheduler
        remedy = "" if address == LOCAL else ": start dask worker"
        raise ModelError("connection", f"No worker is left at {address}{remedy}.")


def _order(job: Job, settings: JobSettings, store: Store, run: str, workers: int) -> Order:
    """The order for each of so many workers."""
    limits = settings.limits
    return Order(
        run=run,
        store=store.place if "://" in store.place else str(Path(store.place).resolve()),
        scope="" if settings.cache else run,
        models=ModelNames.of(settings.model),
        identity=settings.model.identity,
        work=job.work,
        context=job.context,
        # The budget is whole: the workers keep one ledger.
        limits=replace(
            limits,
            concurrency=-(-limits.concurrency // workers),
            rpm=limits.rpm / workers if limits.rpm else None,
            tpm=limits.tpm / workers if limits.tpm else None,
        ),
        prices=settings.prices,
        constrain=settings.constrain,
    )


def _chunks(tasks: Iterator[Task[Any]], size: int) -> Iterator[tuple[Task[Any], ...]]:
    """Tasks in order, in chunks of ``size``, or up to twice that where a group would be split."""
    chunk: list[Task[Any]] = []
    for task in tasks:
        same_group = bool(chunk) and chunk[-1].group == task.group
        if len(chunk) >= (2 * size if same_group else size):
            yield tuple(chunk)
            chunk = []
        chunk.append(task)
    if chunk:
        yield tuple(chunk)


@asynccontextmanager
async def _connect(address: str) -> AsyncIterator[Client]:
    """Connect a client to the cluster, and wait for at least one worker.

    Raises:
        InputError: there is no such cluster.
        ModelError: its scheduler is gone.
    """
    if address == LOCAL:
        local = {"processes": True, "threads_per_worker": 1, "host": "127.0.0.1"}
        # Dask's warnings, as of a dead worker, say less than the failed rows do.
        local |= {"dashboard_address": None, "silence_logs": logging.CRITICAL}
        # By default it takes a fixed port, and warns where that is in use.
        local["scheduler_kwargs"] = {"dashboard_address": "127.0.0.1:0"}
        # The resource tracker unblocks signals when it starts, so it must have started before.
        if hasattr(signal, "pthread_sigmask"):
            resource_tracker.ensure_running()
        # A terminal sends Ctrl-C to the workers as well, but they should finish their calls.
        ignoring = "from signal import *; signal(SIGINT, SIG_IGN)"
        # Without this, Dask may give up on a worker that died and is being restarted.
        with dask.config.set({"distributed.deploy.lost-worker-timeout": "1000 days"}):
            with signals_held(signal.SIGINT):
                cluster = await LocalCluster(asynchronous=True, preload=ignoring, **local)
            async with cluster, Client(cluster, asynchronous=True) as client:
                yield client
        return
    client = Client(address, timeout=PATIENCE, asynchronous=True)
    try:
        # Dask's own timeout does not cover a server that accepts connections but is no scheduler.
        await asyncio.wait_for(client, PATIENCE)
        await asyncio.wait_for(client.wait_for_workers(1), PATIENCE)
    except (OSError, ValueError, TimeoutError):
        with suppress(TimeoutError):
            await client.close(FAREWELL)
        raise InputError(
            f"There is no Dask scheduler with workers at {address}: start dask scheduler and "
            "dask worker, or use --scheduler local."
        ) from None
    logs = [logging.getLogger(f"distributed.{part}") for part in ("client", "batched")]
    farewell = PATIENCE
    # Dask logs warnings about dead workers, and long tracebacks about a lost scheduler.
    for log in logs:
        log.disabled = True
    try:
        yield client
    except (CommClosedError, ConnectionError):
        farewell = FAREWELL
        raise ModelError("connection", f"The scheduler at {address} is gone.") from None
    finally:
        with suppress(TimeoutError):
            await client.close(farewell)
        for log in logs:
            log.disabled = False
