"""A job: many tasks that can be stopped at any time, and resumed where they stopped.

`start` finds the run to resume or begins one, does what is left of it in this process or on
a cluster, and lets calls under way finish when a person or a budget stops it.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pearl.jobs.progress import run_until_stopped, uninterrupted
from pearl.jobs.workers import (
    Fail,
    JobProgress,
    RowsFile,
    Tasks,
    Work,
    WorkerPool,
    failed_row,
    refuse_locked,
)
from pearl.lang.errors import InputError, install_command
from pearl.lang.output_files import check_replaceable
from pearl.lang.rows import Tabled, as_frame
from pearl.lang.values import digest
from pearl.models.base import Model, ModelError, Usage
from pearl.models.constraints import Mode
from pearl.models.middleware.budget import Amount, Ceiling
from pearl.models.middleware.stack import EngineLimits, start_engine
from pearl.models.routing import members
from pearl.models.tokens import Prices, load_prices
from pearl.runtime.context import UNLIMITED, Context
from pearl.session import model_head
from pearl.store.history import (
    as_tags,
    latest,
    read_row_keys,
    read_row_texts,
    read_rows,
    tag_run,
)
from pearl.store.store import Store, StoreLedger, open_store
from pearl.store.totals import totals

if TYPE_CHECKING:
    from pandas import DataFrame

CONCURRENT_TASKS = 64
"""Tasks under way at a time where the number of calls is left to adapt."""

OBJECTS = 60_000
"""Objects that a job makes before Python looks for cycles among them."""


@dataclass(frozen=True)
class Job:
    """Tasks, and what is done with each of them.

    Args:
        kind: the command's name.
        head: what is run on what, for a person, as JSON data.
        identity: beside the model, what makes it the same job when it is started again.
        tasks: its pieces.
        work: what is done with each.
        context: how much fits a prompt, and what to do with a longer document.
        output: the file that rows go to beside the store; empty for none.
        fail: what comes of a task that no worker of a cluster lives to end.
    """

    kind: str
    head: dict[str, Any]
    identity: dict[str, Any]
    tasks: Tasks[Any]
    work: Work
    context: Context = UNLIMITED
    output: str = ""
    fail: Fail = failed_row


@dataclass(frozen=True)
class JobSettings:
    """How a job is done: by which model, within which limits, and where it is kept.

    Args:
        model: who answers.
        store: where runs and replies are kept: a file's path or a database's address.
        prices: what models cost.
        limits: how fast, and how much of it.
        cache: whether replies of other runs count.
        restart: whether to begin a new run where there is one to go on with.
        scheduler: a Dask scheduler's address, or ``local``; empty for this process.
        tags: what the run is called, beside what it was called before.
        grace: seconds that calls under way get to finish after Ctrl-C.
        constrain: whether replies are held to grammars and schemas.
    """

    model: Model
    store: str
    prices: Prices = field(default_factory=load_prices)
    limits: EngineLimits = field(default_factory=EngineLimits)
    cache: bool = True
    restart: bool = False
    scheduler: str = ""
    tags: tuple[str, ...] = ()
    grace: float = 30.0
    constrain: Mode = "never"


def start(
    job: Job, settings: JobSettings, changed: Callable[[JobProgress], None] = lambda _: None
) -> JobProgress:
    """Run a job to its end, or until Ctrl-C stops it; or go on with it.

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
    with _begin(job, settings, changed) as (store, progress):
        work, stop = _work(job, settings, store, progress)
        _run_until_stopped(work, stop, settings.grace)
    return progress


async def run_job(
    job: Job, settings: JobSettings, changed: Callable[[JobProgress], None] = lambda _: None
) -> JobProgress:
    """As `start`, in an event loop that runs already; whoever cancels it stops it."""
    with _begin(job, settings, changed) as (store, progress):
        work, _ = _work(job, settings, store, progress)
        await work
    return progress


@contextmanager
def _begin(
    job: Job, settings: JobSettings, listener: Callable[[JobProgress], None]
) -> Iterator[tuple[Store, JobProgress]]:
    """Open the store, and a run in it: the last one to go on with, or a new one. Where nothing
    stops it, it is marked as ended."""
    tags, model = as_tags(settings.tags), settings.model
    unpriced = [each.name for each in members(model) if settings.prices.get(each.name) is None]
    if settings.limits.max_cost is not None and unpriced:
        raise InputError(
            f"No price is known for {unpriced[0]}, so --max-cost cannot be kept: give one "
            "with --prices or PEARL_PRICES, or limit tokens: --max-tokens."
        )
    if job.output:
        check_replaceable(job.output)
        refuse_locked(job.output)
    if settings.scheduler:
        try:
            import pearl.jobs.cluster  # noqa: F401
        except ImportError:
            raise InputError(f"A cluster needs Dask: {install_command('cluster')}.") from None
    store = open_store(settings.store)
    try:
        known = fingerprint(job, settings)
        head = {**job.head, **model_head(model, settings.constrain)}
        earlier = None if settings.restart else latest(store.engine, known, time.time())
        if earlier is not None:
            run = earlier.name
            store.resume(run, head)
        else:
            run = store.start(job.kind, head, known, own=not settings.cache)
        tag_run(store.engine, run, tags)
        progress = JobProgress(run, len(job.tasks.ids), settings.prices, model.name)
        progress.listener = listener
        yield store, progress
        # Nobody watches what is over, and it can be pickled.
        progress.listener = None
        store.end(run)
    finally:
        with uninterrupted():
            store.close()


def fingerprint(job: Job, settings: JobSettings) -> str:
    """By which a job is known again when it is started by the same model in the same way."""
    identity = {"kind": job.kind, "model": settings.model.identity, "cache": settings.cache}
    if settings.constrain != "auto":
        identity["constrain"] = settings.constrain
    return digest({**job.identity, **identity})


def _work(
    job: Job, settings: JobSettings, store: Store, progress: JobProgress
) -> tuple[Coroutine[Any, Any, None], Callable[[ModelError], bool]]:
    """What does a job's tasks; and what keeps it from making further calls, and tells whether some
    may be under way."""
    if settings.scheduler:
        from pearl.jobs.cluster import ClusterRun

        cluster = ClusterRun(job, settings, store, progress)
        return cluster.run(), cluster.stop
    pool = _pool(job, settings, store, progress)

    async def work() -> None:
        try:
            await run_tasks(job, pool)
        finally:
            await settings.model.close()

    def stop(error: ModelError) -> bool:
        pool.engine.stop(error)
        return True

    return work(), stop


def _pool(job: Job, settings: JobSettings, store: Store, progress: JobProgress) -> WorkerPool:
    """Who does the tasks in this process."""
    limits, run = settings.limits, progress.run
    engine = start_engine(
        settings.model,
        store,
        "" if settings.cache else run,
        limits,
        settings.prices,
        ledger=open_ledger(store, run, settings),
        constrain=settings.constrain,
    )
    size = limits.concurrency or CONCURRENT_TASKS
    return WorkerPool(job.work, job.context, engine, store, run, size, progress)


def _run_until_stopped(
    work: Coroutine[Any, Any, None], stop: Callable[[ModelError], bool], seconds: float
) -> None:
    """Do a job's work; Ctrl-C makes no new calls, and a second one cuts off those under way, as so
    many seconds do."""

    grace: asyncio.TimerHandle | None = None
    stopped = ModelError("stopped", "Stopped.")

    def let_finish(task: asyncio.Task[None]) -> None:
        nonlocal grace, stopped
        under_way = stop(stopped)
        if under_way:
            stopped = ModelError("stopped", "Stopped; calls under way were cut off.")
        grace = task.get_loop().call_later(seconds if under_way else 0, task.cancel)

    def cut_off(task: asyncio.Task[None]) -> None:
        # What was cut off once is not cut off again while it keeps what was done.
        if grace is not None and grace.when() > task.get_loop().time():
            grace.cancel()
            task.cancel()

    try:
        run_until_stopped(work, [let_finish, cut_off], (signal.SIGINT, signal.SIGTERM))
    except asyncio.CancelledError:
        raise stopped from None


async def run_tasks(job: Job, pool: WorkerPool) -> None:
    """Do every task that has no row yet.

    A task that fails leaves the others alone; failed ones of an earlier go
    are tried again.

    Args:
        job: its tasks, and the file their rows go to.
        pool: who does them.

    Raises:
        InputError: the rows cannot be written.
        ModelError: nothing more can be asked (`Engine.stopped` says why), or
            a task cannot be read any more; what was done until then is kept.
    """
    ids, output = await resume(job, pool.store, pool.progress)
    pool.progress.tell()
    try:
        with _collecting_seldom():
            await pool.do_all(job.tasks.read(ids), output.add if output else lambda _: None)
    finally:
        await pool.store.flush()
        if output:
            output.close(stored_lines(pool.store, pool.run))
    stopped = pool.engine.stopped
    if stopped is not None:
        raise ModelError(stopped.reason, str(stopped))


@contextmanager
def _collecting_seldom() -> Iterator[None]:
    """Within the block Python looks for cycles after every 60,000 objects, not after 700.

    What a task makes dies with it, and looking through all that was imported takes a tenth of a
    job's processor time. Who has set a higher limit, or none, keeps it.
    """
    before = gc.get_threshold()
    if not 0 < before[0] < OBJECTS:
        yield
        return
    # What a program froze before it forked, say, is not to be thawed.
    frozen = gc.get_freeze_count()
    if not frozen:
        gc.freeze()
    gc.set_threshold(OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not frozen:
            gc.unfreeze()


async def resume(
    job: Job, store: Store, progress: JobProgress
) -> tuple[tuple[str, ...], RowsFile | None]:
    """Look at what an earlier go of a run has done.

    A row holds while what it was asked is what it was; others are dropped.

    Args:
        job: its tasks, and the file their rows go to.
        store: where the run is kept.
        progress: names the run; what holds is counted in it.

    Returns:
        The ids of the tasks to be done, in order; and the job's file, with the
        rows that hold, None where it has none.

    Raises:
        InputError: a task cannot be read, or the file cannot be written.
    """
    tasks, run = job.tasks, progress.run
    earlier = read_row_keys(store.engine, run)
    stored = tuple(name for name in tasks.ids if name in earlier)
    finished: set[str] = set()
    for task in tasks.read(stored) if stored else ():
        row = earlier[task.id]
        if row.key != task.key:
            store.drop_row(run, task.id)
            continue
        if row.position != task.position:
            store.move_row(run, task.id, task.position)
        if row.status == "answered":
            finished.add(task.id)
    for name in earlier.keys() - set(stored):
        store.drop_row(run, name)
    await store.flush()
    for row_ in stored_rows(store, run, finished) if finished else ():
        progress.count_row(row_)
    progress.before = progress.finished
    output = RowsFile(job.output, stored_lines(store, run, finished)) if job.output else None
    return tuple(name for name in tasks.ids if name not in finished), output


def stored_rows(store: Store, run: str, only: set[str] | None = None) -> Iterator[dict[str, Any]]:
    """A run's rows in the order of the tasks, all of them or some."""
    rows = read_rows(store.engine, run)
    return (row for name, row in rows if only is None or name in only)


def stored_lines(store: Store, run: str, only: set[str] | None = None) -> Iterator[str]:
    """As `stored_rows`, each as a line of JSON."""
    texts = read_row_texts(store.engine, run)
    return (f"{text}\n" for name, text in texts if only is None or name in only)


def open_ledger(store: Store, run: str, settings: JobSettings) -> StoreLedger | None:
    """The ledger of a run with a limit, with what it has spent before; else None."""
    ceiling = settings.limits.ceiling
    if ceiling == Ceiling():
        return None
    spent = totals(store.engine, run).spent_by(settings.model.name)
    tokens = sum(usage.total for usage in spent.values())
    ledger = StoreLedger(store, run, ceiling)
    ledger.open(Amount(tokens, settings.prices.cost(spent) or 0))
    return ledger


def spent_in(run: str, settings: JobSettings) -> dict[str, Usage]:
    """Tokens that a run has spent since it began, by model.

    Args:
        run: its name.
        settings: what it was done with.
    """
    with closing(open_store(settings.store)) as store:
        return totals(store.engine, run).spent_by(settings.model.name)


def read_results(place: str, run: str) -> Iterator[dict[str, Any]]:
    """A run's rows, in the order of its tasks.

    Args:
        place: the store's.
        run: the run's name.
    """
    with closing(open_store(place)) as store:
        yield from stored_rows(store, run)


@dataclass(frozen=True)
class JobResult(Tabled):
    """What a job came to.

    Args:
        run: its name.
        rows: a task each, in order, as JSON data; ``status`` says whether it was ``answered``.
        progress: how many there are, and the calls that they took.
    """

    run: str
    rows: tuple[dict[str, Any], ...]
    progress: JobProgress

    def frame(self) -> DataFrame:
        """The rows as a table of pandas, as `as_frame` makes it."""
        return as_frame(self.rows)
