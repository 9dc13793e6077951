"""The same job on a Dask cluster: in chunks, with one store for all workers.

Keys never travel: a worker reads its own environment. Rows, journals, replies
and the budget are in the store, so a worker that dies loses no more than the
calls it had under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pearl.engine import Limits
from pearl.jobs.hand import Done, Order, do_chunk, plugin, stop_worker
from pearl.jobs.output import Sink, Written
from pearl.jobs.resume import stored_rows, take_up
from pearl.jobs.tally import Tally
from pearl.jobs.task import Task, Tasks
from pearl.llm import ModelError
from pearl.source import InputError
from pearl.store import Store

if TYPE_CHECKING:
    from distributed import Client

SMALLEST, LARGEST = 4, 64
"""Tasks in a chunk; in between, so that each worker gets several."""

PATIENCE = 30.0
"""Seconds to wait for a scheduler, and for its first worker."""


def run_on_cluster(
    address: str,
    tasks: Tasks[Any],
    order: Order,
    store: Store,
    tally: Tally,
    changed: Callable[[Tally], None],
    sink: Sink,
) -> None:
    """Do every task that has no row yet, on a cluster.

    Args:
        address: the scheduler's, as ``tcp://host:8786``, or ``local``.
        tasks: all there are.
        order: what workers need to know; its limits are for all of them together.
        store: the client's own connection to the store.
        tally: how far the job is.
        changed: told of each change.
        sink: where rows go.

    Raises:
        InputError: there is no such cluster, or a worker cannot do its work.
        ModelError: nothing more can be asked; what was done is kept.
    """
    left = asyncio.run(take_up(tasks, store, order.run, tally))
    written = sink(stored_rows(store, order.run, left.kept))
    changed(tally)
    try:
        with _connected(address) as client:
            workers = len(client.scheduler_info(n_workers=-1)["workers"])
            share = replace(order, limits=_share(order.limits, workers))
            size = max(SMALLEST, min(LARGEST, len(left.ids) // (4 * workers)))
            chunks = _chunks(tasks.read(left.ids), size)
            _collect(client, share, chunks, written, tally, changed)
    finally:
        written.close(stored_rows(store, order.run))


def _collect(
    client: Client,
    order: Order,
    chunks: Iterator[tuple[Task[Any], ...]],
    written: Written,
    tally: Tally,
    changed: Callable[[Tally], None],
) -> None:
    from distributed import as_completed

    name = f"pearl-{order.run}"
    client.register_plugin(plugin(order), name=name)
    stopped: tuple[str, str] | None = None
    futures = [client.submit(do_chunk, name, chunk, pure=False) for chunk in chunks]
    try:
        for future in as_completed(futures):
            done = future.result()
            _count(tally, done)
            for row in done.rows:
                written.add(row)
                tally.count_row(row)
            changed(tally)
            if done.stopped and stopped is None:
                stopped = done.stopped
                client.run(stop_worker, name, *stopped)
    except KeyboardInterrupt:
        stopped = ("stopped", "Stopped.")
        client.run(stop_worker, name, *stopped)
        for future in futures:
            with suppress(Exception):
                _count(tally, future.result(PATIENCE))
    finally:
        client.unregister_worker_plugin(name)
    if stopped:
        raise ModelError(*stopped)


def _count(tally: Tally, done: Done) -> None:
    calls, kept, vain = done.calls
    tally.calls += calls
    tally.kept += kept
    tally.vain += vain
    tally.spent += done.spent


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


def _share(limits: Limits, workers: int) -> Limits:
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
