"""A Dask worker's side of a job.

Keys never travel: a worker reads its own environment.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pearl.context import Context
from pearl.engine import Ceiling, Engine, Limits, start_engine
from pearl.jobs.crew import Crew, do_all
from pearl.jobs.tally import Tally
from pearl.jobs.task import Task, Work
from pearl.llm import ModelError, Usage, choose_model
from pearl.llm.prices import Price
from pearl.llm.tokens import counter
from pearl.source import InputError
from pearl.store import Store, open_store
from pearl.store.ledger import StoreLedger

if TYPE_CHECKING:
    from distributed import Worker

TOGETHER = 64
"""Tasks under way at a time in one worker, where the number of calls adapts."""

PATIENCE = 30.0
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
    limits: Limits
    price: Price | None


@dataclass(frozen=True)
class Done:
    """What came of a chunk.

    Args:
        rows: of the tasks that came to an end.
        calls: as the `Tally` counts them: answered, kept, in vain.
        spent: tokens of what was sent.
        stopped: reason and message where nothing more can be asked.
    """

    rows: tuple[dict[str, Any], ...]
    calls: tuple[int, int, int]
    spent: Usage
    stopped: tuple[str, str] | None


class Hand:
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
        tally = Tally(order.run, len(todo))
        together = min(len(todo), order.limits.concurrency or TOGETHER)
        crew = Crew(order.work, self._context, engine, store, order.run, together, tally)
        await do_all(crew, iter(todo), rows.append)
        stopped = engine.stopped
        return Done(
            tuple(rows),
            (tally.calls, tally.kept, tally.vain),
            tally.spent,
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

    class Plugin(Hand, WorkerPlugin):  # type: ignore[misc]
        """A `Hand` as Dask knows it."""

    return Plugin(order)


def do_chunk(name: str, todo: tuple[Task[Any], ...]) -> Done:
    """What a worker does with a chunk."""
    from distributed import get_worker

    hand: Hand = get_worker().plugins[name]
    return hand.do(todo)


def stop_worker(name: str, reason: str, message: str, dask_worker: Worker) -> None:
    """Tells a worker to stop."""
    dask_worker.plugins[name].stop(reason, message)
