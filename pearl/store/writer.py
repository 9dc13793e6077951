"""Who writes to a store: many coroutines' changes in one transaction, and how each is written.

A transaction costs as much as the dozens of rows that it may hold, and a
database file takes one writer at a time. Changes are handed over in order and
committed in that order; who needs to know that they are safe waits for `Writer.ask`.

What every call needs goes straight to the driver (`__write_many`, `__read_all`):
SQLAlchemy writes the SQL, once for each kind of database; to put it together
and to wrap results anew for each call takes longer than the database does.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import cache, lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from sqlalchemy import (
    BindParameter,
    Insert,
    Select,
    Table,
    and_,
    bindparam,
    delete,
    insert,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from pearl.models.base import ModelError, Reply, Usage
from pearl.store.database import checkpoint, is_dead, is_log_long
from pearl.store.tables import TOKENS, entries, leases, ledger, replies, rows, runs

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Dialect, Engine, Executable


Work: TypeAlias = "Callable[[Connection, list[Any]], list[Any] | None]"
"""Carries out changes of one kind, as many as came together; answers one by one, or not at all."""

HEARTBEAT = 10.0
"""Seconds between two signs of life."""

TRIES = 4
"""How often a transaction is tried that another process's stood in the way of."""


class _Change(NamedTuple):
    """Something to write, and who waits for it; no work is only a mark to be waited for."""

    work: Work | None
    payload: Any
    waiting: tuple[asyncio.AbstractEventLoop, asyncio.Future[Any]] | None


class Writer(ABC):
    """Takes changes, and commits them in the order in which they came.

    Args:
        engine: the database.
        heartbeat: a change that is made every ten seconds for as long as there
            is a loop or a thread to make it, and what to hand it: a sign of life.
    """

    def __init__(self, engine: Engine, heartbeat: tuple[Work, Any]) -> None:
        self._engine = engine
        self._heartbeat = _Change(*heartbeat, None)
        self._broken = ""

    def post(self, work: Work, payload: Any) -> None:  # noqa: ANN401 - the work's own
        """Hand over a change, and go on."""
        self._put(_Change(work, payload, None))

    async def ask(self, work: Work | None, payload: Any) -> Any:  # noqa: ANN401 - the work's own
        """Hand over a change, and wait for its answer, which stands once it is committed.

        Args:
            work: what to do; None only waits for what was handed over so far.
            payload: what to do it with.

        Raises:
            ModelError: the database takes nothing any more (reason ``store``).
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._put(_Change(work, payload, (loop, future)))
        return await future

    @abstractmethod
    def close(self) -> None:
        """Commit what was handed over, and end."""

    @abstractmethod
    def _put(self, change: _Change) -> None: ...

    def _commit(self, changes: Sequence[_Change]) -> list[tuple[_Change, Any]]:
        """Carry out changes: each with its answer; `_broken` says what is wrong, if anything is."""
        groups: dict[Work, list[_Change]] = {}
        for change in changes:
            if change.work is not None:
                groups.setdefault(change.work, []).append(change)
        posted = {work: group for work, group in groups.items() if group[0].waiting is None}
        awaited = {work: group for work, group in groups.items() if work not in posted}
        # Changes that nobody waits for are this process's own rows; those that are answered take
        # rows that others want too. On a server two long transactions could wait for each other;
        # a file has one writer at a time.
        in_file = self._engine.dialect.name == "sqlite"
        answers: dict[int, Any] = {}
        try:
            for part in [posted | awaited] if in_file else [posted, awaited]:
                if part and not self._broken:
                    self._transaction(part, answers)
        except Exception as error:  # noqa: BLE001 - whatever the driver raises, callers learn of it
            reason = " ".join(str(getattr(error, "orig", None) or error).split())[:200]
            self._broken = f"The store cannot be written: {reason.rstrip('.')}."
        return [(change, answers.get(id(change))) for change in changes]

    def _transaction(self, groups: dict[Work, list[_Change]], answers: dict[int, Any]) -> None:
        from sqlalchemy.exc import OperationalError

        driver = self._engine.dialect.loaded_dbapi
        for remaining in reversed(range(TRIES)):
            try:
                with self._connection() as connection, connection.begin():
                    for work, changes in groups.items():
                        results = work(connection, [change.payload for change in changes])
                        if results is not None:
                            answers.update(zip(map(id, changes), results, strict=True))
            except (OperationalError, driver.OperationalError):
                # A deadlock, or a lock that was held for long: the transaction left no trace.
                if not remaining:
                    raise
            else:
                return

    def _connection(self) -> AbstractContextManager[Connection]:
        return self._engine.connect()

    def _settle(self, answered: Sequence[tuple[_Change, Any]]) -> None:
        """Wake who waits, in their own loop."""
        for change, answer in answered:
            if change.waiting is None or change.waiting[1].done():
                continue
            if self._broken:
                change.waiting[1].set_exception(ModelError("store", self._broken))
            else:
                change.waiting[1].set_result(answer)


ROUNDS = 2
"""Rounds of the event loop for which a commit waits: what comes in them shares it. Two save half of
the commits of 32 questions side by side; further ones save less than waiting for them costs."""


class LoopWriter(Writer):
    """Commits in the event loop's own thread, once for all that comes within a few of its rounds.

    It is for a file, which takes a few dozen microseconds to write to; handing the work to
    another thread takes longer, as Python's threads wait for one another.
    """

    def __init__(self, engine: Engine, heartbeat: tuple[Work, Any]) -> None:
        super().__init__(engine, heartbeat)
        self._changes: list[_Change] = []
        self._due = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._held: Connection | None = None

    def close(self) -> None:
        """Commit what was handed over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._drain()
        self._let_go()

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        # To take one from the pool and to give it back costs more than most transactions.
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
            self._loop, self._due = loop, False
            self._timer = loop.call_later(HEARTBEAT, self._live, loop)
        if not self._due:
            self._due = True
            loop.call_soon(self._wait, loop, ROUNDS)

    def _wait(self, loop: asyncio.AbstractEventLoop, rounds: int) -> None:
        if rounds:
            loop.call_soon(self._wait, loop, rounds - 1)
        else:
            self._drain()

    def _live(self, loop: asyncio.AbstractEventLoop) -> None:
        self._changes.append(self._heartbeat)
        self._drain()
        if is_log_long(self._engine):
            loop.run_in_executor(None, checkpoint, self._engine)
        self._timer = loop.call_later(HEARTBEAT, self._live, loop)

    def _drain(self) -> None:
        self._due = False
        changes, self._changes = self._changes, []
        if changes:
            self._settle(self._commit(changes))


class ThreadWriter(Writer):
    """Commits in a thread of its own, for a database that is reached over a network."""

    def __init__(self, engine: Engine, heartbeat: tuple[Work, Any]) -> None:
        super().__init__(engine, heartbeat)
        self._beaten = time.monotonic()
        self._changes: deque[_Change] = deque()
        self._wake = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None

    def close(self) -> None:
        """Commit what was handed over, and end the thread."""
        self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

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
                # One call into each loop wakes all who wait there.
                waiting: dict[asyncio.AbstractEventLoop, list[tuple[_Change, Any]]] = {}
                for change, answer in self._commit(changes):
                    if change.waiting is not None:
                        waiting.setdefault(change.waiting[0], []).append((change, answer))
                for loop, answered in waiting.items():
                    if not loop.is_closed():
                        loop.call_soon_threadsafe(self._settle, answered)
            if self._closing:
                return


Row: TypeAlias = dict[str, Any]

LEASE = 60.0
"""Seconds for which a call under way is its maker's, unless it renews the lease."""

_AT_ONCE = 400
"""Keys in one look-up: databases limit the parameters of a statement."""


def insert_into(table: Table, dialect: str) -> Any:  # noqa: ANN401 - either dialect's
    """An insertion that can say what becomes of a row that is there already."""
    return (postgresql.insert if dialect == "postgresql" else sqlite.insert)(table)


def _params(table: Table) -> dict[str, Any]:
    """Each column from the parameter of its name."""
    columns = (column for column in table.c if column.autoincrement is not True)
    return {column.name: bindparam(column.name, type_=column.type) for column in columns}


_ADD_ENTRY = insert(entries).values(_params(entries))
_END_LEASE = delete(leases).where(
    and_(leases.c.scope == bindparam("s"), leases.c.key == bindparam("k"))
)


class Claim(NamedTuple):
    """A call that somebody wants made."""

    scope: str
    key: str
    owner: str


def add_entries(connection: Connection, changes: list[Row]) -> None:
    """Append journal entries."""
    _write_many(connection, _ADD_ENTRY, changes)


def add_replies(connection: Connection, changes: list[Row]) -> None:
    """Keep replies, and give up the leases on their keys."""
    changes.sort(key=lambda row: (row["scope"], row["key"]))
    _write_many(connection, _keeping(connection.dialect.name), changes)
    # Whoever took such a call over meanwhile finds its reply.
    _write_many(connection, _END_LEASE, [{"s": row["scope"], "k": row["key"]} for row in changes])


def give_up(connection: Connection, claims: list[Claim]) -> None:
    """Give up leases, as far as they are still the claimers' own."""
    where = and_(
        leases.c.scope == bindparam("s"),
        leases.c.key == bindparam("k"),
        leases.c.owner == bindparam("o"),
    )
    given_up = [{"s": claim.scope, "k": claim.key, "o": claim.owner} for claim in claims]
    connection.execute(delete(leases).where(where), given_up)


def put_rows(connection: Connection, changes: list[Row]) -> None:
    """Put a batch's results; a later one of the same question replaces it."""
    last = {(row["run"], row["id"]): row for row in changes}
    _write_many(connection, _replacing(connection.dialect.name), list(last.values()))


_ROW = and_(rows.c.run == bindparam("r"), rows.c.id == bindparam("i"))


def move_rows(connection: Connection, changes: list[Row]) -> None:
    """Give questions another place in their file."""
    connection.execute(update(rows).where(_ROW).values(position=bindparam("p")), changes)


def drop_rows(connection: Connection, changes: list[Row]) -> None:
    """Forget results."""
    connection.execute(delete(rows).where(_ROW), changes)


def put_runs(connection: Connection, changes: list[Row]) -> None:
    """Write down that runs start or go on."""
    for row in changes:
        changed = {name: row[name] for name in ("owner", "seen", "ended", "head")}
        done = connection.execute(update(runs).where(runs.c.id == row["id"]).values(changed))
        if not done.rowcount:
            connection.execute(insert(runs), row)


def end_runs(connection: Connection, changes: list[str]) -> None:
    """Write down that runs have ended."""
    connection.execute(update(runs).where(runs.c.id.in_(changes)).values(ended=time.time()))


def renew(connection: Connection, changes: list[str]) -> None:
    """A sign of life of some owners: their leases and runs hold on."""
    now = time.time()
    owners = list(dict.fromkeys(changes))
    connection.execute(update(leases).where(leases.c.owner.in_(owners)).values(expires=now + LEASE))
    connection.execute(update(runs).where(runs.c.owner.in_(owners)).values(seen=now))
    connection.execute(update(ledger).where(ledger.c.owner.in_(owners)).values(seen=now))


def claim(connection: Connection, changes: list[Claim]) -> list[Reply | bool]:
    """Look calls up, and take those that are neither answered nor under way.

    Each is answered with its reply, with True where the claimer is to make
    the call, or with False where another process is making it.

    The lease comes first and the look-up second: the other way round, a reply
    that another process commits in between would be missed, and paid again.
    """
    now = time.time()
    claims = dict(sorted({(claim.scope, claim.key): claim for claim in changes}.items()))
    fresh = [{**claim._asdict(), "expires": now + LEASE} for claim in claims.values()]
    all_new = _write_many(connection, _leasing(connection.dialect.name), fresh) == len(fresh)
    answered: dict[tuple[str, str], Reply] = {}
    for scope, keys in _by_scope(claims):
        values = {"scope": scope, **{f"k{number}": key for number, key in enumerate(keys)}}
        for key, text, *tokens in _read_all(connection, _looking_up(len(keys)), values):
            answered[scope, key] = Reply(text, Usage(*tokens), kept=True)
    missing = [place for place in claims if place not in answered]
    # Who holds a call, and until when.
    held: dict[tuple[str, str], tuple[str, float]] = {}
    for scope, keys in _by_scope([] if all_new else missing):
        where = and_(leases.c.scope == scope, leases.c.key.in_(keys))
        for row in connection.execute(select(leases).where(where)):
            held[scope, row.key] = (row.owner, row.expires)
    verdicts: dict[tuple[str, str], Reply | bool] = dict(answered)
    for place in missing:
        # On a server another process may have kept the reply, or given up, since the look-up
        # above: then no lease is there, and the claimer looks again.
        owner, expires = held.get(place, ("", 0.0))
        verdicts[place] = all_new or (
            place in held
            and (
                owner == claims[place].owner
                or _take_over(connection, claims[place], owner, expires, now)
            )
        )
    if answered:
        give_up(connection, [claims[place] for place in answered])
    return [verdicts[claim.scope, claim.key] for claim in changes]


def _take_over(connection: Connection, call: Claim, owner: str, expires: float, now: float) -> bool:
    """Take a dead process's lease, unless another one was faster."""
    if now < expires and not is_dead(owner, expires - LEASE, now):
        return False
    where = and_(leases.c.scope == call.scope, leases.c.key == call.key, leases.c.owner == owner)
    changed = connection.execute(
        update(leases).where(where).values(owner=call.owner, expires=now + LEASE)
    )
    return changed.rowcount == 1


@cache
def _leasing(dialect: str) -> Insert:
    """The statement that takes leases; one that is there stays as it is."""
    statement: Insert = (
        insert_into(leases, dialect).values(_params(leases)).on_conflict_do_nothing()
    )
    return statement


@cache
def _keeping(dialect: str) -> Insert:
    """Keep replies; one that was cut off makes room for another, a whole one stays."""
    return _upsert(replies, dialect, where=~replies.c.complete)


@cache
def _replacing(dialect: str) -> Insert:
    """Put a question's result in the place of an earlier one."""
    return _upsert(rows, dialect)


def _upsert(table: Table, dialect: str, where: ColumnElement[bool] | None = None) -> Insert:
    """Add a row, or replace the one of its key; where a condition is given, only if that has it."""
    statement = insert_into(table, dialect).values(_params(table))
    key = [column.name for column in table.primary_key]
    replaced = {name: column for name, column in statement.excluded.items() if name not in key}
    upsert: Insert = statement.on_conflict_do_update(index_elements=key, set_=replaced, where=where)
    return upsert


def _by_scope(places: Iterable[tuple[str, str]]) -> Iterator[tuple[str, list[str]]]:
    """Scopes with their keys, some at a time."""
    scopes: dict[str, list[str]] = {}
    for scope, key in places:
        scopes.setdefault(scope, []).append(key)
    for scope, keys in scopes.items():
        for at in range(0, len(keys), _AT_ONCE):
            yield scope, keys[at : at + _AT_ONCE]


@lru_cache(maxsize=128)
def _looking_up(count: int) -> Select[Any]:
    """Look up so many calls; a reply that was cut off helps nobody, and is asked for again."""
    keys: list[BindParameter[str]] = [bindparam(f"k{number}") for number in range(count)]
    tokens = [replies.c[name] for name in TOKENS]
    where = and_(replies.c.scope == bindparam("scope"), replies.c.key.in_(keys), replies.c.complete)
    return select(replies.c.key, replies.c.text, *tokens).where(where)


def forget_owner(connection: Connection, changes: list[str]) -> None:
    """Delete the leases of owners that end, and leave their runs without an owner."""
    connection.execute(delete(leases).where(leases.c.owner.in_(changes)))
    connection.execute(update(runs).where(runs.c.owner.in_(changes)).values(owner=""))


def _write_many(connection: Connection, statement: Executable, rows: Sequence[Row]) -> int:
    """Carry out a statement for each row, and say how many rows it changed.

    Args:
        connection: within a transaction.
        statement: the same object each time, so that its SQL is kept.
        rows: values by the names of its parameters.
    """
    sql, values = _compile(statement, connection.dialect)
    with closing(connection.connection.cursor()) as cursor:
        cursor.executemany(sql, [values(row) for row in rows])
        return int(cursor.rowcount)


def _read_all(connection: Connection, statement: Executable, row: Row) -> list[Any]:
    """The rows of a query, each a plain sequence; the arguments as of `_write_many`."""
    sql, values = _compile(statement, connection.dialect)
    with closing(connection.connection.cursor()) as cursor:
        cursor.execute(sql, values(row))
        return list(cursor.fetchall())


@lru_cache(maxsize=256)
def _compile(statement: Any, dialect: Dialect) -> tuple[str, Callable[[Row], Any]]:  # noqa: ANN401
    """SQL, and what makes its parameters of a row, by place or by name as the driver takes them."""
    compiled = statement.compile(dialect=dialect)
    places = compiled.positiontup
    if places is None:
        return str(compiled), dict
    if len(places) > 1:
        return str(compiled), itemgetter(*places)
    return str(compiled), lambda row: tuple(row[name] for name in places)
