"""The same job on a Dask cluster: in chunks, with one store for all workers.

Keys never travel: a worker reads its own environment. Rows, journals, replies
and the budget are in the store, so a worker that dies loses no more than the
calls it had under way.

A Dask worker's side of a job.

Keys never travel: a worker reads its own environment.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pearl.jobs.job import resume, stored_rows
from pearl.jobs.output import Sink, Written
from pearl.jobs.workers import JobProgress, Task, Tasks, Work, WorkerPool, do_all
from pearl.lang.source import InputError
from pearl.models.base import ModelError, Usage
from pearl.models.choose import choose_model
from pearl.models.middleware.budget import Ceiling
from pearl.models.middleware.stack import Engine, EngineLimits, start_engine
from pearl.models.prices import Price
from pearl.models.tokens import counter
from pearl.run.context import Context
from pearl.store.store import Store, StoreLedger, open_store

if TYPE_CHECKING:
    from distributed import Client, Worker


CONCURRENT_TASKS = 64
"""Tasks under way at a time in one worker, where the number of calls adapts."""

"""Seconds that a worker has to let go."""


@dataclass(frozen=True)
class Order:
    """What a worker needs to know of a job.

    Args:
        run: the run's name.
        store: the store's address, the same for all.
        scope: which of its replies count.
        model: the model's name.
        identity: all that decides its answers, as the client sees it.
        work: what is done with each task.
        context: how much fits a prompt.
        limits: one worker's share of them, but for the budget, which is whole.
        price: what the model's tokens cost.
    """

    run: str
    store: str
    scope: str
    model: str
    identity: str
    work: Work
    context: Context
    limits: EngineLimits
    price: Price | None


@dataclass(frozen=True)
class Done:
    """What came of a chunk.

    Args:
        rows: of the tasks that came to an end.
        calls: as the `JobProgress` counts them: answered, kept, in vain.
        spent: tokens of what was sent.
        stopped: reason and message where nothing more can be asked.
    """

    rows: tuple[dict[str, Any], ...]
    calls: tuple[int, int, int]
    spent: Usage
    stopped: tuple[str, str] | None


class DaskWorker:
    """A worker's side: one event loop, one engine and one store for all its chunks."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._context = order.context
        self._engine: Engine | None = None
        self._store: Store | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def setup(self, worker: Worker) -> None:
        """Called by Dask when the worker joins."""
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="pearl", daemon=True).start()

    def teardown(self, worker: Worker) -> None:
        """Called by Dask when the job is over."""
        if self._loop is None:
            return
        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._loop = None

    def do(self, todo: tuple[Task[Any], ...]) -> Done:
        """Do a chunk's tasks."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(self._do(todo), self._loop).result()

    def stop(self, reason: str, message: str) -> None:
        """Let calls under way finish, and make no further ones."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop, ModelError(reason, message))

    def _stop(self, error: ModelError) -> None:
        self._opened()[0].stop(error)

    async def _do(self, todo: tuple[Task[Any], ...]) -> Done:
        order = self._order
        engine, store = self._opened()
        rows: list[dict[str, Any]] = []
        progress = JobProgress(order.run, len(todo))
        together = min(len(todo), order.limits.concurrency or CONCURRENT_TASKS)
        pool = WorkerPool(order.work, self._context, engine, store, order.run, together, progress)
        await do_all(pool, iter(todo), rows.append)
        stopped = engine.stopped
        return Done(
            tuple(rows),
            (progress.calls, progress.kept, progress.vain),
            progress.spent,
            (stopped.reason, str(stopped)) if stopped else None,
        )

    def _opened(self) -> tuple[Engine, Store]:
        if self._engine is not None and self._store is not None:
            return self._engine, self._store
        order = self._order
        model = choose_model(order.model)
        if model.identity != order.identity:
            raise InputError(
                f"A worker would ask {model.identity} instead of {order.identity}: set "
                "OPENAI_BASE_URL and the other settings there as they are here."
            )
        store = open_store(order.store)
        limited = order.limits.ceiling != Ceiling()
        ledger = StoreLedger(store, order.run, order.limits.ceiling) if limited else None
        self._store = store
        self._engine = start_engine(
            model, store, order.scope, order.limits, order.price, ledger=ledger
        )
        # A count is remembered for the very function that counts.
        self._context = replace(order.context, count=counter(order.model))
        return self._engine, store

    async def _close(self) -> None:
        if self._engine is not None:
            await self._engine.model.close()
        if self._store is not None:
            self._store.close()


def plugin(order: Order) -> Any:  # noqa: ANN401 - its base is Dask's
    """What Dask hands to every worker, those that join later among them."""
    from distributed import WorkerPlugin

    class Plugin(DaskWorker, WorkerPlugin):  # type: ignore[misc]
        """A `DaskWorker` as Dask knows it."""

    return Plugin(order)


def do_chunk(name: str, todo: tuple[Task[Any], ...]) -> Done:
    """What a worker does with a chunk."""
    from distributed import get_worker

    hand: DaskWorker = get_worker().plugins[name]
    return hand.do(todo)


def stop_worker(name: str, reason: str, message: str, dask_worker: Worker) -> None:
    """Tells a worker to stop."""
    dask_worker.plugins[name].stop(reason, message)


SMALLEST, LARGEST = 4, 64
"""Tasks in a chunk; in between, so that each worker gets several."""

PATIENCE = 30.0
"""Seconds to wait for a scheduler, and for its first worker."""


def run_on_cluster(
    address: str,
    tasks: Tasks[Any],
    order: Order,
    store: Store,
    progress: JobProgress,
    changed: Callable[[JobProgress], None],
    sink: Sink,
) -> None:
    """Do every task that has no row yet, on a cluster.

    Args:
        address: the scheduler's, as ``tcp://host:8786``, or ``local``.
        tasks: all there are.
        order: what workers need to know; its limits are for all of them together.
        store: the client's own connection to the store.
        progress: how far the job is.
        changed: told of each change.
        sink: where rows go.

    Raises:
        InputError: there is no such cluster, or a worker cannot do its work.
        ModelError: nothing more can be asked; what was done is kept.
    """
    left = asyncio.run(resume(tasks, store, order.run, progress))
    written = sink(stored_rows(store, order.run, left.kept))
    changed(progress)
    try:
        with _connected(address) as client:
            workers = len(client.scheduler_info(n_workers=-1)["workers"])
            share = replace(order, limits=_share(order.limits, workers))
            size = max(SMALLEST, min(LARGEST, len(left.ids) // (4 * workers)))
            chunks = _chunks(tasks.read(left.ids), size)
            _collect(client, share, chunks, written, progress, changed)
    finally:
        written.close(stored_rows(store, order.run))


def _collect(
    client: Client,
    order: Order,
    chunks: Iterator[tuple[Task[Any], ...]],
    written: Written,
    progress: JobProgress,
    changed: Callable[[JobProgress], None],
) -> None:
    from distributed import as_completed

    name = f"pearl-{order.run}"
    client.register_plugin(plugin(order), name=name)
    stopped: tuple[str, str] | None = None
    futures = [client.submit(do_chunk, name, chunk, pure=False) for chunk in chunks]
    try:
        for future in as_completed(futures):
            done = future.result()
            _count(progress, done)
            for row in done.rows:
                written.add(row)
                progress.count_row(row)
            changed(progress)
            if done.stopped and stopped is None:
                stopped = done.stopped
                client.run(stop_worker, name, *stopped)
    except KeyboardInterrupt:
        stopped = ("stopped", "Stopped.")
        client.run(stop_worker, name, *stopped)
        for future in futures:
            with suppress(Exception):
                _count(progress, future.result(PATIENCE))
    finally:
        client.unregister_worker_plugin(name)
    if stopped:
        raise ModelError(*stopped)


def _count(progress: JobProgress, done: Done) -> None:
    calls, kept, vain = done.calls
    progress.calls += calls
    progress.kept += kept
    progress.vain += vain
    progress.spent += done.spent


def _chunks(todo: Iterator[Task[Any]], size: int) -> Iterator[tuple[Task[Any], ...]]:
    """Tasks in order, so many together, and up to twice as many to end with a group."""
    chunk: list[Task[Any]] = []
    for task in todo:
        goes_on = bool(chunk) and chunk[-1].group == task.group
        if len(chunk) >= (2 * size if goes_on else size):
            yield tuple(chunk)
            chunk = []
        chunk.append(task)
    if chunk:
        yield tuple(chunk)


def _share(limits: EngineLimits, workers: int) -> EngineLimits:
    """One worker's share. The budget is whole: the workers keep one ledger."""
    return replace(
        limits,
        concurrency=-(-limits.concurrency // workers),
        rpm=limits.rpm / workers if limits.rpm else None,
        tpm=limits.tpm / workers if limits.tpm else None,
    )


@contextmanager
def _connected(address: str) -> Iterator[Client]:
    """A client of the cluster, with at least one worker."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise InputError(
            "A cluster needs Dask: install it with pip install 'dask[distributed]'."
        ) from None
    if address == "local":
        with (
            LocalCluster(
                processes=True, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client
        return
    try:
        client = Client(address, timeout=PATIENCE)
        client.wait_for_workers(1, timeout=PATIENCE)
    except (OSError, ValueError, TimeoutError):
        raise InputError(
            f"There is no Dask scheduler with workers at {address}: start dask scheduler and "
            "dask worker, or use --scheduler local."
        ) from None
    with client:
        yield client
