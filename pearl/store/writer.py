"""Who writes: many coroutines' changes in one transaction.

A transaction costs as much as the dozens of rows that it may hold, and a
database file takes one writer at a time. Changes are handed over in order and
committed in that order; who needs to know that they are safe waits for `flush`.

Statements that every call needs, straight to the driver.

SQLAlchemy writes the SQL, once for each kind of database; to put it together
and to wrap results anew for each call takes longer than the database does.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from pearl.models.base import ModelError
from pearl.store.database import checkpoint, is_log_long

if TYPE_CHECKING:
    from sqlalchemy import Connection, Dialect, Engine, Executable


Work: TypeAlias = "Callable[[Connection, list[Any]], list[Any] | None]"
"""Carries out changes of one kind, as many as came together; answers one by one, or not at all."""

BEAT = 10.0
"""Seconds between two signs of life."""

TRIES = 4
"""How often a transaction is tried that another process's stood in the way of."""


class _Job(NamedTuple):
    work: Work | None
    payload: Any
    waiting: tuple[asyncio.AbstractEventLoop, asyncio.Future[Any]] | None


class Writer(Protocol):
    """Takes changes, and commits them in the order in which they came."""

    def post(self, work: Work, payload: Any) -> None:  # noqa: ANN401 - the work's own
        """Hand over a change, and go on."""
        ...

    async def ask(self, work: Work, payload: Any) -> Any:  # noqa: ANN401 - the work's own
        """Hand over a change, and wait for its answer, which stands once it is committed.

        Raises:
            ModelError: the database takes nothing any more (reason ``store``).
        """
        ...

    async def flush(self) -> None:
        """Wait until everything that was handed over so far is committed.

        Raises:
            ModelError: the database takes nothing any more (reason ``store``).
        """
        ...

    def close(self) -> None:
        """Commit what was handed over, and end."""
        ...


class _Jobs:
    """Carries out jobs, as many as came together in one transaction.

    Args:
        engine: the database.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._broken = ""

    def carry_out(self, jobs: list[_Job]) -> tuple[dict[int, Any], str]:
        """Carry out jobs: their answers by identity, and what is wrong with the database."""
        groups: dict[Work, list[_Job]] = {}
        for job in jobs:
            if job.work is not None:
                groups.setdefault(job.work, []).append(job)
        answers: dict[int, Any] = {}
        if not self._broken:
            try:
                self._commit(groups, answers)
            except Exception as error:  # noqa: BLE001 - whatever the driver raises, callers learn of it
                said = " ".join(str(getattr(error, "orig", None) or error).split())[:200]
                self._broken = f"The store cannot be written: {said.rstrip('.')}."
        return answers, self._broken

    def _commit(self, groups: dict[Work, list[_Job]], answers: dict[int, Any]) -> None:
        told = {work: jobs for work, jobs in groups.items() if jobs[0].waiting is None}
        asked = {work: jobs for work, jobs in groups.items() if work not in told}
        # Changes that nobody waits for are this process's own rows; those that are answered take
        # rows that others want too. On a server two long transactions could wait for each other;
        # a file has one writer at a time.
        parts = [told | asked] if self._engine.dialect.name == "sqlite" else [told, asked]
        for some in parts:
            if some:
                self._transaction(some, answers)

    def _transaction(self, groups: dict[Work, list[_Job]], answers: dict[int, Any]) -> None:
        from sqlalchemy.exc import OperationalError

        driver = self._engine.dialect.loaded_dbapi
        for left in reversed(range(TRIES)):
            try:
                with self._engine.begin() as connection:
                    for work, jobs in groups.items():
                        found = work(connection, [job.payload for job in jobs])
                        if found is not None:
                            pairs = zip(jobs, found, strict=True)
                            answers.update((id(job), answer) for job, answer in pairs)
            except (OperationalError, driver.OperationalError):
                # A deadlock, or a lock that was held for long: the transaction left no trace.
                if not left:
                    raise
            else:
                return


class LoopWriter:
    """Commits in the event loop's own thread, once for all that is ready at a moment.

    A file takes a few dozen microseconds to write to; handing the work to
    another thread takes longer, as Python's threads wait for one another.

    Args:
        engine: the database, a file.
        beat: a change that is made every ten seconds while a loop runs, and
            what to hand it: a sign of life.
    """

    def __init__(self, engine: Engine, beat: tuple[Work, Any]) -> None:
        self._engine = engine
        self._jobs = _Jobs(engine)
        self._beat = _Job(*beat, None)
        self._taken: list[_Job] = []
        self._due = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pulse: asyncio.TimerHandle | None = None

    def post(self, work: Work, payload: Any) -> None:  # noqa: ANN401 - the work's own
        """Hand over a change, and go on."""
        self._put(_Job(work, payload, None))

    async def ask(self, work: Work, payload: Any) -> Any:  # noqa: ANN401 - the work's own
        """Hand over a change, and wait for its answer.

        Raises:
            ModelError: the database takes nothing any more (reason ``store``).
        """
        return await self._awaited(work, payload)

    async def flush(self) -> None:
        """Wait until everything that was handed over so far is committed.

        Raises:
            ModelError: the database takes nothing any more (reason ``store``).
        """
        await self._awaited(None, None)

    def close(self) -> None:
        """Commit what was handed over."""
        if self._pulse is not None:
            self._pulse.cancel()
            self._pulse = None
        self._drain()

    async def _awaited(self, work: Work | None, payload: Any) -> Any:  # noqa: ANN401
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._put(_Job(work, payload, (loop, future)))
        return await future

    def _put(self, job: _Job) -> None:
        self._taken.append(job)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._drain()
            return
        if loop is not self._loop:
            self._loop = loop
            self._pulse = loop.call_later(BEAT, self._live)
        if job.waiting is not None and not self._due:
            # What nobody waits for goes along with the next that somebody does.
            self._due = True
            loop.call_soon(self._drain)

    def _live(self) -> None:
        self._taken.append(self._beat)
        self._drain()
        if self._loop is not None:
            if is_log_long(self._engine):
                self._loop.run_in_executor(None, checkpoint, self._engine)
            self._pulse = self._loop.call_later(BEAT, self._live)

    def _drain(self) -> None:
        self._due = False
        taken, self._taken = self._taken, []
        if not taken:
            return
        answers, broken = self._jobs.carry_out(taken)
        _settle([(one, answers.get(id(one))) for one in taken], broken)


class ThreadWriter:
    """Commits in a thread of its own, for a database that is reached over a network.

    Args:
        engine: the database.
        beat: a change that is made every ten seconds for as long as the
            thread runs, and what to hand it: a sign of life.
    """

    def __init__(self, engine: Engine, beat: tuple[Work, Any]) -> None:
        self._carrier = _Jobs(engine)
        self._beat = _Job(*beat, None)
        self._beaten = time.monotonic()
        self._jobs: deque[_Job] = deque()
        self._wake = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None

    def post(self, work: Work, payload: Any) -> None:  # noqa: ANN401 - the work's own
        """Hand over a change, and go on."""
        self._put(_Job(work, payload, None))

    async def ask(self, work: Work, payload: Any) -> Any:  # noqa: ANN401 - the work's own
        """Hand over a change, and wait for its answer, which stands once it is committed.

        Raises:
            ModelError: the database takes nothing any more (reason ``store``).
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._put(_Job(work, payload, (loop, future)))
        return await future

    async def flush(self) -> None:
        """Wait until everything that was handed over so far is committed.

        Raises:
            ModelError: the database takes nothing any more (reason ``store``).
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._put(_Job(None, None, (loop, future)))
        await future

    def close(self) -> None:
        """Commit what was handed over, and end the thread."""
        self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _put(self, job: _Job) -> None:
        if self._thread is None:
            self._closing = False
            self._thread = threading.Thread(target=self._run, name="pearl-store", daemon=True)
            self._thread.start()
        self._jobs.append(job)
        self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.wait(BEAT)
            self._wake.clear()
            if time.monotonic() - self._beaten > BEAT:
                self._beaten = time.monotonic()
                self._jobs.append(self._beat)
            while self._jobs:
                taken = [self._jobs.popleft() for _ in range(len(self._jobs))]
                self._tell(taken, *self._carrier.carry_out(taken))
            if self._closing:
                return

    def _tell(self, jobs: list[_Job], answers: dict[int, Any], broken: str) -> None:
        """Wake who waits, with one call into each loop."""
        waiting: dict[asyncio.AbstractEventLoop, list[tuple[_Job, Any]]] = {}
        for job in jobs:
            if job.waiting is not None:
                waiting.setdefault(job.waiting[0], []).append((job, answers.get(id(job))))
        for loop, pairs in waiting.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(_settle, pairs, broken)


def _settle(pairs: list[tuple[_Job, Any]], broken: str) -> None:
    """Wake who waits."""
    for job, answer in pairs:
        if job.waiting is None or job.waiting[1].done():
            continue
        if broken:
            job.waiting[1].set_exception(ModelError("store", broken))
        else:
            job.waiting[1].set_result(answer)


Row: TypeAlias = dict[str, Any]


def write_many(connection: Connection, statement: Executable, rows: Sequence[Row]) -> int:
    """Carry out a statement for each row, and say how many rows it changed.

    Args:
        connection: within a transaction.
        statement: the same object each time, so that its SQL is kept.
        rows: values by the names of its parameters.
    """
    sql, names = _written(statement, connection.dialect)
    cursor = connection.connection.cursor()
    try:
        cursor.executemany(sql, _values(rows, names))
        return int(cursor.rowcount)
    finally:
        cursor.close()


def read_all(connection: Connection, statement: Executable, row: Row) -> list[Any]:
    """The rows of a query, each a plain sequence.

    Args:
        connection: within a transaction.
        statement: the same object each time, so that its SQL is kept.
        row: values by the names of its parameters.
    """
    sql, names = _written(statement, connection.dialect)
    cursor = connection.connection.cursor()
    try:
        cursor.execute(sql, _values([row], names)[0])
        return list(cursor.fetchall())
    finally:
        cursor.close()


def _values(rows: Sequence[Row], names: tuple[str, ...] | None) -> list[Any]:
    if names is None:
        return list(rows)
    return [tuple(row[name] for name in names) for row in rows]


@lru_cache(maxsize=256)
def _written(statement: Any, dialect: Dialect) -> tuple[str, tuple[str, ...] | None]:  # noqa: ANN401
    """SQL, and its parameters' names in order where the driver takes them by place."""
    compiled = statement.compile(dialect=dialect)
    places = compiled.positiontup
    return str(compiled), tuple(places) if places is not None else None
