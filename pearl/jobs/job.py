"""A job: many tasks that can be stopped at any time, and resumed where they stopped.

`start` resumes an earlier run or begins a new one, does the remaining tasks in this process or on a
cluster, and lets calls under way finish when the user or a budget stops it.
"""

from __future__ import annotations

import asyncio
import gc
import os
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
from pearl.lang.output_files import check_replaceable, refuse_same
from pearl.lang.rows import Tabled, as_frame
from pearl.lang.values import digest
from pearl.models.base import Model, ModelError, Usage
from pearl.models.constraints import Mode
from pearl.models.middleware.budget import Amount, Ceiling
from pearl.models.middleware.stack import EngineLimits, check_priced, start_engine
from pearl.models.tokens import Prices, load_prices
from pearl.runtime.context import UNLIMITED, Context
from pearl.session import model_head
from pearl.store.database import store_files
from pearl.store.history import (
    as_tags,
    latest,
    latest_writer,
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
"""Tasks at the same time where the number of concurrent calls adapts."""

OBJECTS = 60_000
"""Objects that a job creates before Python collects cyclic garbage."""


@dataclass(frozen=True)
class Job:
    """Tasks, and what is done with each of them.

    Args:
        kind: the command's name.
        head: what is run on what, for people, as JSON data.
        identity: what tells it from other jobs when it is started again, besides the model.
        tasks: its tasks.
        work: what is done with each task.
        context: how much fits a prompt, and what to do with a longer document.
        output: the file that rows are written to besides the store; empty for none.
        fail: makes the row of a task whose workers on a cluster all died.
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
    """How a job is done: by which model, within which limits, and where it is stored.

    Args:
        model: the model that answers.
        store: where runs and replies are kept: a file's path or a database's address.
        prices: the price table.
        limits: limits of concurrency, rate and budget.
        cache: whether to reuse the replies of other runs.
        restart: whether to begin a new run even where there is one to resume.
        scheduler: a Dask scheduler's address, or ``local``; empty for this process.
        tags: tags to add to the run.
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
    """Run or resume a job, to its end or until Ctrl-C stops it.

    Args:
        job: the job.
        settings: how it is done.
        changed: called at each change of progress.

    Returns:
        The final progress.

    Raises:
        InputError: the job or a setting cannot be used; nothing was sent.
        ModelError: it was stopped: by the user, a budget, or an endpoint
            that refuses every call. Finished tasks are kept.
    """
    with _begin(job, settings, changed) as (store, progress):
        work, stop = _work(job, settings, store, progress)
        _run_until_stopped(work, stop, settings.grace)
    return progress


async def run_job(
    job: Job, settings: JobSettings, changed: Callable[[JobProgress], None] = lambda _: None
) -> JobProgress:
    """As `start`, in an event loop that is running; cancelling the task stops the job."""
    with _begin(job, settings, changed) as (store, progress):
        work, _ = _work(job, settings, store, progress)
        await work
    return progress


@contextmanager
def _begin(
    job: Job, settings: JobSettings, listener: Callable[[JobProgress], None]
) -> Iterator[tuple[Store, JobProgress]]:
    """Open the store, and resume the latest run of this job in it, or begin a new one. The run is
    marked as ended unless an exception stops it."""
    tags, model = as_tags(settings.tags), settings.model
    check_priced(settings.limits, model, settings.prices)
    if job.output:
        refuse_same(job.output, (), store_files(settings.store))
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
        # Without its listener, progress can be pickled.
        progress.listener = None
        store.end(run)
    finally:
        with uninterrupted():
            store.close()


def fingerprint(job: Job, settings: JobSettings) -> str:
    """The hash by which a job is recognised: its identity, model, ``cache`` and ``constrain``."""
    identity = {"kind": job.kind, "model": settings.model.identity, "cache": settings.cache}
    if settings.constrain != "auto":
        identity["constrain"] = settings.constrain
    return digest({**job.identity, **identity})


def replaced_answers(job: Job, settings: JobSettings) -> tuple[str, bool]:
    """Whose answers a job's file holds that is to be replaced.

    Returns:
        The run that wrote it last, empty where the store has none; and whether the job is another
        one, so that they go from the file.

    Raises:
        InputError: the store cannot be used.
    """
    if not (os.path.isfile(job.output) and os.path.getsize(job.output)):
        return "", False
    with closing(open_store(settings.store)) as store:
        writer = latest_writer(store.engine, job.output)
        known = fingerprint(job, settings)
        earlier = None if settings.restart else latest(store.engine, known, time.time())
    return writer, earlier is None or writer != earlier.name


def _work(
    job: Job, settings: JobSettings, store: Store, progress: JobProgress
) -> tuple[Coroutine[Any, Any, None], Callable[[ModelError], bool]]:
    """A coroutine that does a job's tasks, and a function that keeps it from making further calls
    and tells whether some may be under way."""
    if settings.scheduler:
        from pearl.jobs.cluster import ClusterRun

        cluster = ClusterRun(job, settings, store, progress)
        return cluster.run(), cluster.stop
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
    pool = WorkerPool(job.work, job.context, engine, store, size, progress)

    async def work() -> None:
        try:
            await run_tasks(job, pool)
        finally:
            await settings.model.close()

    def stop(error: ModelError) -> bool:
        engine.stop(error)
        return True

    return work(), stop


def _run_until_stopped(
    work: Coroutine[Any, Any, None], stop: Callable[[ModelError], bool], seconds: float
) -> None:
    """Do a job's work. After Ctrl-C no new calls are made; a second Ctrl-C, or the end of these
    seconds, cancels those under way."""

    grace: asyncio.TimerHandle | None = None
    stopped = ModelError("stopped", "Stopped.")

    def let_finish(task: asyncio.Task[None]) -> None:
        nonlocal grace, stopped
        under_way = stop(stopped)
        if under_way:
            stopped = ModelError("stopped", "Stopped; calls under way were cut off.")
        grace = task.get_loop().call_later(seconds if under_way else 0, task.cancel)

    def cut_off(task: asyncio.Task[None]) -> None:
        # Cancelled only once, so that what was done can still be saved.
        if grace is not None and grace.when() > task.get_loop().time():
            grace.cancel()
            task.cancel()

    try:
        run_until_stopped(work, [let_finish, cut_off])
    except asyncio.CancelledError:
        raise stopped from None


async def run_tasks(job: Job, pool: WorkerPool) -> None:
    """Do every task that has no row yet.

    A task that fails does not affect the others; tasks that failed before the
    run was resumed are tried again.

    Raises:
        InputError: the rows cannot be written.
        ModelError: no more calls can be made (`Engine.stopped` says why), or
            a task can no longer be read; finished tasks are kept.
    """
    ids, output = await resume(job, pool.store, pool.progress)
    pool.progress.tell()
    try:
        with _collecting_seldom():
            await pool.do_all(job.tasks.read(ids), output.add if output else lambda _: None)
    finally:
        await pool.store.flush()
        if output:
            output.close(stored_lines(pool.store, pool.progress.run))
    stopped = pool.engine.stopped
    if stopped is not None:
        raise ModelError(stopped.reason, str(stopped))


@contextmanager
def _collecting_seldom() -> Iterator[None]:
    """Within the block, Python collects cyclic garbage after every `OBJECTS` new objects.

    A task's objects are freed without that, and to look through all that was imported takes a tenth
    of a job's processor time. A higher threshold, or none, that the program has set is kept.
    """
    before = gc.get_threshold()
    if not 0 < before[0] < OBJECTS:
        yield
        return
    # Objects that the program itself froze, before a fork for example, must stay frozen.
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
    """Find out which tasks of a run, which ``progress`` names, are done, and drop rows that no
    longer hold.

    A stored row holds as long as its task's key is unchanged; it is counted in ``progress``.

    Returns:
        The ids of the remaining tasks, in order; and the job's file with the
        rows that hold, or None where the job has no file.

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
    # Those that no longer hold are dropped by now, so the answered ones are those of `finished`.
    for _, held in read_rows(store.engine, run, status="answered"):
        progress.count_row(held)
    progress.before = progress.finished
    output = RowsFile(job.output, stored_lines(store, run, "answered")) if job.output else None
    return tuple(name for name in tasks.ids if name not in finished), output


def stored_lines(store: Store, run: str, status: str = "") -> Iterator[str]:
    """A run's rows in the order of the tasks, or only those of a status, each a line of JSON."""
    return (f"{text}\n" for _, text in read_row_texts(store.engine, run, status=status))


def open_ledger(store: Store, run: str, settings: JobSettings) -> StoreLedger | None:
    """The ledger of a run with a budget, opened with what the run has spent; else None."""
    ceiling = settings.limits.ceiling
    if ceiling == Ceiling():
        return None
    spent = totals(store.engine, run).spent_by(settings.model.name)
    tokens = sum(usage.total for usage in spent.values())
    ledger = StoreLedger(store, run, ceiling)
    ledger.open(Amount(tokens, settings.prices.cost(spent) or 0))
    return ledger


def spent_in(run: str, settings: JobSettings) -> dict[str, Usage]:
    """The tokens that a run, which was done with these settings, has spent since it began, by
    model."""
    with closing(open_store(settings.store)) as store:
        return totals(store.engine, run).spent_by(settings.model.name)


def read_results(place: str, run: str) -> Iterator[dict[str, Any]]:
    """A run's rows, in the order of its tasks; ``place`` is the store's path or address."""
    with closing(open_store(place)) as store:
        for _, row in read_rows(store.engine, run):
            yield row


@dataclass(frozen=True)
class JobResult(Tabled):
    """The result of a job.

    Args:
        run: the run's name.
        rows: one for each task, in order, as JSON data; ``status`` is ``answered`` or ``failed``.
        progress: counts of tasks and of the calls that they took.
    """

    run: str
    rows: tuple[dict[str, Any], ...] = field(repr=False)
    progress: JobProgress

    def frame(self) -> DataFrame:
        """The rows as a table of pandas, as `as_frame` makes it."""
        return as_frame(self.rows)
