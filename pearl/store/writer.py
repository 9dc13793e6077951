"""Writes to a store: the changes of many coroutines in one transaction.

A transaction takes as long as the dozens of rows that it may hold, and a
database file takes one writer at a time. Changes are committed in the order in
which they are posted; `Writer.ask` waits for the commit.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

from pearl.models.base import ModelError
from pearl.store.database import (
    DisplacedError,
    check_to_write,
    checkpoint,
    driver_reason,
    is_log_long,
)

Work: TypeAlias = Callable[[Connection, list[Any]], list[Any] | None]
"""Carries out changes of one kind together; gives an answer for each, or None."""

HEARTBEAT = 10.0
"""Seconds between two heartbeats."""

LOOK = 1.0
"""Seconds between two looks at how long a file's log is. A fast job writes 80 MB of it in four
seconds, and SQLite would move these into the file within a commit, for which all would wait."""

SILENT = 60.0
"""The most seconds to wait for an answer of a server, which may be gone without a word."""

TRIES = 4
"""The most tries of a transaction that is blocked by another process."""


class _Change(NamedTuple):
    """A change to write, and the future that waits for it; without work, a mark to wait for."""

    work: Work | None
    payload: Any
    waiting: tuple[asyncio.AbstractEventLoop, asyncio.Future[Any]] | None


_Answer: TypeAlias = tuple[asyncio.AbstractEventLoop, asyncio.Future[Any], Any]
"""The answer to a change, with the future that waits for it and its event loop."""


class Writer(ABC):
    """Takes changes, and commits them in the order in which they came.

    Args:
        engine: the database.
        heartbeat: a change, with its payload, that is made every ten seconds
            while the event loop or the thread runs.
    """

    def __init__(self, engine: Engine, heartbeat: tuple[Work, Any]) -> None:
        self._engine = engine
        self._heartbeat = _Change(*heartbeat, None)
        self._broken: tuple[str, str] | None = None
        """The error's reason and message, once nothing can be written any more."""

    def post(self, work: Work, payload: Any) -> None:  # noqa: ANN401 - the work's own
        """Post a change, without waiting for it."""
        self._put(_Change(work, payload, None))

    async def ask(self, work: Work | None, payload: Any) -> Any:  # noqa: ANN401 - the work's own
        """Post a change, and wait until it is committed; returns its answer.

        Args:
            work: carries the change out; None only waits for earlier changes.
            payload: what is passed to it.

        Raises:
            ModelError: the database cannot be written (reason ``store``), or its file is gone
                (``lost``).
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._put(_Change(work, payload, (loop, future)))
        return await self._answer(future)

    async def _answer(self, future: asyncio.Future[Any]) -> Any:  # noqa: ANN401 - the work's own
        return await future

    @abstractmethod
    def close(self) -> None:
        """Commit the posted changes, and end."""

    @abstractmethod
    def _put(self, change: _Change) -> None: ...

    def _commit(self, changes: Sequence[_Change]) -> list[_Answer]:
        """Carry out changes, and give the answers that are waited for; an error is put into
        `_broken`."""
        groups: dict[Work, list[_Change]] = {}
        for change in changes:
            if change.work is not None:
                groups.setdefault(change.work, []).append(change)
        posted = {work: group for work, group in groups.items() if group[0].waiting is None}
        awaited = {work: group for work, group in groups.items() if work not in posted}
        # Posted changes write this process's own rows; awaited ones take rows that other processes
        # want too. On a server, two transactions with both could block each other, so they are
        # separate; a file has one writer at a time.
        in_file = self._engine.dialect.name == "sqlite"
        answers: dict[int, Any] = {}
        try:
            for part in [posted | awaited] if in_file else [posted, awaited]:
                if part and not self._broken:
                    self._transaction(part, answers)
        except DisplacedError as error:
            self._broken = ("lost", str(error))
        except Exception as error:  # noqa: BLE001 - whatever the driver raises, callers learn of it
            reason = driver_reason(self._engine, error)
            self._broken = ("store", f"The store cannot be written: {reason}.")
        return [(*change.waiting, answers.get(id(change))) for change in changes if change.waiting]

    def _transaction(self, groups: dict[Work, list[_Change]], answers: dict[int, Any]) -> None:
        driver = self._engine.dialect.loaded_dbapi
        for remaining in reversed(range(TRIES)):
            try:
                with self._connection() as connection, connection.begin():
                    for work, changes in groups.items():
                        results = work(connection, [change.payload for change in changes])
                        if results is not None:
                            answers.update(zip(map(id, changes), results, strict=True))
            except (OperationalError, driver.OperationalError):
                # After a deadlock, or a lock held for long, the transaction has been rolled back.
                if not remaining:
                    raise
            else:
                return

    def _connection(self) -> AbstractContextManager[Connection]:
        return self._engine.connect()

    def _settle(self, answers: Sequence[_Answer]) -> None:
        """Set the results of the futures; called in their own event loop."""
        for _, future, answer in answers:
            if future.done():
                continue
            if self._broken:
                future.set_exception(ModelError(*self._broken))
            else:
                future.set_result(answer)


LATER = 8
"""Rounds of the event loop until a commit that no call waits for. Most such changes are included
in the next one that a call waits for."""

WINDOW = 0.25
"""Seconds over which it is measured whether the event loop is ever idle."""

BUSY = 0.95
"""The share of these seconds in which its thread has the processor, from which on it is not."""


class LoopWriter(Writer):
    """Commits in the event loop's own thread, once for all changes within a few of its rounds.

    It is for a file: writing takes a few dozen microseconds, and passing the work to another thread
    would take longer, as Python's threads wait for one another.
    """

    def __init__(self, engine: Engine, heartbeat: tuple[Work, Any]) -> None:
        super().__init__(engine, heartbeat)
        self._changes: list[_Change] = []
        self._rounds: int | None = None
        """The rounds left until the next commit; None where none is due."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._looked = 0.0
        self._measured = 0.0, 0.0
        self._is_busy = False
        self._held: Connection | None = None

    def close(self) -> None:
        """Commit the posted changes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._drain()
        self._let_go()

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        check_to_write(self._engine)
        # Taking a connection from the pool and returning it costs more than most transactions.
        self._held = self._held or self._engine.connect()
        try:
            yield self._held
        except BaseException:
            self._let_go()
            raise

    def _let_go(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    def _put(self, change: _Change) -> None:
        self._changes.append(change)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._drain()
            return
        if loop is not self._loop:
            self._loop, self._rounds = loop, None
            self._timer = loop.call_later(HEARTBEAT, self._live, loop)
        if self._rounds is None:
            self._rounds = LATER
            loop.call_soon(self._wait, loop)
        if change.waiting and change.work:
            self._rounds = min(self._rounds, self._soon())

    def _soon(self) -> int:
        """Rounds until a commit that a call waits for: none while the loop is idle at times, as the
        call is what the job waits for. Else one, as the processor is, and fewer commits save it."""
        seconds = time.monotonic() - self._measured[0]
        if seconds > WINDOW:
            spent = time.thread_time()
            self._is_busy = spent - self._measured[1] > BUSY * seconds
            self._measured = time.monotonic(), spent
        return int(self._is_busy)

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._rounds:
            self._rounds -= 1
            loop.call_soon(self._wait, loop)
        else:
            self._drain_within(loop)

    def _live(self, loop: asyncio.AbstractEventLoop) -> None:
        self._changes.append(self._heartbeat)
        self._drain_within(loop)
        self._timer = loop.call_later(HEARTBEAT, self._live, loop)

    def _drain_within(self, loop: asyncio.AbstractEventLoop) -> None:
        self._drain()
        if loop.time() - self._looked > LOOK:
            self._looked = loop.time()
            if is_log_long(self._engine):
                loop.run_in_executor(None, checkpoint, self._engine)

    def _drain(self) -> None:
        self._rounds = None
        changes, self._changes = self._changes, []
        if changes:
            self._settle(self._commit(changes))


class ThreadWriter(Writer):
    """Commits in a thread of its own, for a database that is reached over a network."""

    def __init__(self, engine: Engine, heartbeat: tuple[Work, Any]) -> None:
        super().__init__(engine, heartbeat)
        self._beaten = self._began = time.monotonic()
        self._silent = False
        self._changes: deque[_Change] = deque()
        self._wake = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None

    def close(self) -> None:
        """Commit the posted changes, and end the thread; one whose server is silent is left."""
        self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(0 if self._silent else SILENT)
            self._thread = None

    async def _answer(self, future: asyncio.Future[Any]) -> Any:  # noqa: ANN401 - the work's own
        try:
            while not future.done() and not self._silent:
                await asyncio.wait([future], timeout=SILENT)
                self._silent = not future.done() and time.monotonic() - self._began > SILENT
            if not future.done():
                self._broken = (
                    "store",
                    "The store cannot be written: its server has not answered for "
                    f"{SILENT:.0f} seconds.",
                )
                raise ModelError(*self._broken)
            return future.result()
        finally:
            future.cancel()

    def _put(self, change: _Change) -> None:
        if self._thread is None:
            self._closing = False
            self._thread = threading.Thread(target=self._run, name="pearl-store", daemon=True)
            self._thread.start()
        self._changes.append(change)
        self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.wait(HEARTBEAT)
            self._wake.clear()
            if time.monotonic() - self._beaten > HEARTBEAT:
                self._beaten = time.monotonic()
                self._changes.append(self._heartbeat)
            while self._changes:
                changes = [self._changes.popleft() for _ in range(len(self._changes))]
                self._began = time.monotonic()
                # One call into each event loop sets the results of all its futures.
                waiting: dict[asyncio.AbstractEventLoop, list[_Answer]] = {}
                for answer in self._commit(changes):
                    waiting.setdefault(answer[0], []).append(answer)
                for loop, answers in waiting.items():
                    if not loop.is_closed():
                        loop.call_soon_threadsafe(self._settle, answers)
            if self._closing:
                return
