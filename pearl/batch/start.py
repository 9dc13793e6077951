"""From what a person asked for to a batch that runs, and stops when they say so."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pearl.batch.batch import run_batch
from pearl.batch.crew import Crew
from pearl.batch.questions import Index, read_index
from pearl.batch.tally import Tally
from pearl.batch.work import Setup, digest
from pearl.context import Context
from pearl.engine import Amount, Engine, Limits, start_engine
from pearl.library import Library
from pearl.llm import Model, ModelError, Usage
from pearl.llm.prices import Prices
from pearl.planner import choose_demonstrations, load_demonstrations
from pearl.source import InputError
from pearl.store import Store, open_store
from pearl.store.history import latest, totals

TOGETHER = 64
"""Questions under way at a time where the number of calls is left to adapt."""


@dataclass(frozen=True)
class Job:
    """What a person asked for.

    Args:
        questions: the file of questions.
        documents: the folder with their documents; empty for the file's own.
        output: the file of answers.
        library: the actions a plan may call.
        model: who answers.
        context: how much fits a prompt, and what to do with a longer document.
        passes: rewrites of plans.
        store: where runs and replies are kept.
        prices: what models cost.
        limits: how fast, and how much of it.
        cache: whether replies of other runs count.
        restart: whether to begin a new run where there is one to go on with.
        scheduler: a Dask scheduler's address, or ``local``; empty for this process.
        grace: seconds that calls under way get to finish after Ctrl-C.
    """

    questions: str
    documents: str
    output: str
    library: Library
    model: Model
    context: Context
    passes: tuple[str, ...]
    store: str
    prices: Prices
    limits: Limits = field(default_factory=Limits)
    cache: bool = True
    restart: bool = False
    scheduler: str = ""
    grace: float = 30.0


def start(job: Job, changed: Callable[[Tally], None]) -> Tally:
    """Run a batch to its end, or until it is stopped.

    Args:
        job: what to do.
        changed: told of each change.

    Returns:
        What it came to.

    Raises:
        InputError: something given cannot be used; nothing was sent.
        ModelError: it was stopped: by the person, a budget, or an endpoint
            that refuses everything. What was answered until then is kept.
    """
    index = read_index(job.questions, job.documents)
    demonstrations = choose_demonstrations(load_demonstrations(), job.library)
    setup = Setup(job.library, demonstrations, job.context, job.passes)
    store = open_store(job.store)
    try:
        run = _run(job, index, setup, store)
        price = job.prices.get(job.model.name)
        if job.limits.max_cost is not None and price is None:
            raise InputError(
                f"No price is known for {job.model.name}, so --max-cost cannot be kept: give one "
                "with --prices, or use --max-tokens."
            )
        tally = Tally(run, len(index.places), price)
        scope = "" if job.cache else run
        spent = totals(store.engine, run).spent
        if job.scheduler:
            _on_cluster(job, index, setup, store, tally, changed, spent)
            store.end(run)
            return tally
        engine = start_engine(job.model, store, scope, job.limits, price, spent)
        together = job.limits.concurrency or TOGETHER
        crew = Crew(setup, engine, store, run, together, tally, changed)
        asyncio.run(_until_stopped(index, crew, job))
        store.end(run)
        return tally
    finally:
        store.close()


def _on_cluster(
    job: Job,
    index: Index,
    setup: Setup,
    store: Store,
    tally: Tally,
    changed: Callable[[Tally], None],
    spent: Usage,
) -> None:
    from pearl.batch.cluster import run_on_cluster
    from pearl.batch.hand import Order
    from pearl.store.ledger import StoreLedger

    place = job.store if "://" in job.store else str(Path(job.store).resolve())
    price = tally.price
    cost = price.cost(spent) if price else 0
    tokens = spent.prompt_tokens + spent.completion_tokens
    StoreLedger(store, tally.run, job.limits.ceiling).open(Amount(tokens, cost))
    scope = "" if job.cache else tally.run
    model = job.model
    order = Order(tally.run, place, scope, model.name, model.identity, setup, job.limits, price)
    run_on_cluster(job.scheduler, index, order, store, tally, changed, job.output)


def _run(job: Job, index: Index, setup: Setup, store: Store) -> str:
    """The run to go on with, or a new one."""
    known = {
        "questions": str(index.path.resolve()),
        "documents": str(index.folder.resolve()),
        "output": str(Path(job.output).resolve()),
        "model": job.model.identity,
        "setup": setup.digest(),
        "cache": job.cache,
    }
    fingerprint = digest(known)
    found = None if job.restart else latest(store.engine, fingerprint, time.time())
    if found is not None:
        store.resume(found.name)
        return found.name
    head: dict[str, Any] = {
        "questions": job.questions,
        "count": len(index.places),
        "documents": str(index.folder),
        "output": job.output,
        "library": ", ".join(job.library.names),
        "model": job.model.name,
    }
    return store.start("batch", head, fingerprint, own=not job.cache)


async def _until_stopped(index: Index, crew: Crew, job: Job) -> None:
    work = asyncio.create_task(run_batch(index, crew, job.output))
    loop = asyncio.get_running_loop()
    stopping = _Stopping(crew.engine, work, job.grace)
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
        await job.model.close()


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
