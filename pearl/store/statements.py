"""The changes to a store, many at a time: entries, replies and rows of runs, and leases on calls.

A lease on a call's key says which process makes it, for as long as it is made. So no call is made
twice, whoever asks it: a process that finds a lease waits, and one that dies leaves a lease that
another may take over.

What every call needs goes straight to the driver (`write_many`, `read_all`): SQLAlchemy writes the
SQL, once for each kind of database; to put it together and to wrap results anew for each call takes
longer than the database does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
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
    case,
    delete,
    func,
    insert,
    select,
    update,
)

from pearl.models.base import Reply, Usage
from pearl.store.database import is_dead
from pearl.store.tables import TOKENS, entries, leases, ledger, replies, rows, runs

if TYPE_CHECKING:
    from sqlalchemy import Connection, Dialect, Executable

Row: TypeAlias = dict[str, Any]


def insert_into(table: Table, dialect: str) -> Any:  # noqa: ANN401 - either dialect's
    """An insertion that can say what becomes of a row that is there already."""
    if dialect == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)


def params(table: Table) -> dict[str, Any]:
    """Each column from the parameter of its name."""
    columns = (column for column in table.c if column.autoincrement is not True)
    return {column.name: bindparam(column.name, type_=column.type) for column in columns}


_ADD_ENTRY = insert(entries).values(params(entries))

_END_LEASE = delete(leases).where(
    and_(leases.c.scope == bindparam("s"), leases.c.key == bindparam("k"))
)


def add_entries(connection: Connection, changes: list[Row]) -> None:
    """Append journal entries."""
    write_many(connection, _ADD_ENTRY, changes)


def add_replies(connection: Connection, changes: list[Row]) -> None:
    """Keep replies, and give up the leases on their keys."""
    changes.sort(key=lambda row: (row["scope"], row["key"]))
    write_many(connection, _upsert(replies, connection.dialect.name), changes)
    # Whoever took such a call over meanwhile finds its reply.
    write_many(connection, _END_LEASE, [{"s": row["scope"], "k": row["key"]} for row in changes])


def put_rows(connection: Connection, changes: list[Row]) -> None:
    """Put a batch's results; a later one of the same question replaces it."""
    last = {(row["run"], row["id"]): row for row in changes}
    write_many(connection, _upsert(rows, connection.dialect.name), list(last.values()))


_ROW = and_(rows.c.run == bindparam("r"), rows.c.id == bindparam("i"))


def move_rows(connection: Connection, changes: list[Row]) -> None:
    """Give questions another place in their file."""
    connection.execute(update(rows).where(_ROW).values(position=bindparam("p")), changes)


def drop_rows(connection: Connection, changes: list[Row]) -> None:
    """Forget results."""
    connection.execute(delete(rows).where(_ROW), changes)


def put_runs(connection: Connection, changes: list[Row]) -> None:
    """Write down that runs start or go on."""
    # Of a run that was broken off, the last sign of life is known.
    ended = func.coalesce(runs.c.ended, case((runs.c.seen < time.time(), runs.c.seen), else_=0))
    last = ended - func.coalesce(runs.c.resumed, runs.c.started)
    seconds = runs.c.earlier_seconds + case((last > 0, last), else_=0)
    for row in changes:
        changed = {name: row[name] for name in ("owner", "seen", "ended", "head")}
        changed |= {"resumed": row["seen"], "earlier_seconds": seconds}
        done = connection.execute(update(runs).where(runs.c.id == row["id"]).values(changed))
        if not done.rowcount:
            connection.execute(insert(runs), row)


def end_runs(connection: Connection, changes: list[str]) -> None:
    """Write down that runs have ended."""
    connection.execute(update(runs).where(runs.c.id.in_(changes)).values(ended=time.time()))


@cache
def _upsert(table: Table, dialect: str) -> Insert:
    """Add a row, or replace the one of its key: a question's result, or a reply that was cut off.

    A whole reply stays.
    """
    where = ~table.c.complete if table is replies else None
    statement = insert_into(table, dialect).values(params(table))
    key = [column.name for column in table.primary_key]
    replaced = {name: column for name, column in statement.excluded.items() if name not in key}
    upsert: Insert = statement.on_conflict_do_update(index_elements=key, set_=replaced, where=where)
    return upsert


# --- which process makes a call ---

LEASE = 60.0
"""Seconds for which a call under way is its maker's, unless it renews the lease."""

_AT_ONCE = 400
"""Keys in one look-up: databases limit the parameters of a statement."""


class Claim(NamedTuple):
    """A call that somebody wants made."""

    scope: str
    key: str
    owner: str


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
    all_new = write_many(connection, _leasing(connection.dialect.name), fresh) == len(fresh)
    answered: dict[tuple[str, str], Reply] = {}
    for scope, keys in _by_scope(claims):
        values = {"scope": scope, **{f"k{number}": key for number, key in enumerate(keys)}}
        for key, text, *tokens in read_all(connection, _looking_up(len(keys)), values):
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
    statement: Insert = insert_into(leases, dialect).values(params(leases)).on_conflict_do_nothing()
    return statement


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


def give_up(connection: Connection, claims: list[Claim]) -> None:
    """Give up leases, as far as they are still the claimers' own."""
    where = and_(
        leases.c.scope == bindparam("s"),
        leases.c.key == bindparam("k"),
        leases.c.owner == bindparam("o"),
    )
    given_up = [{"s": claim.scope, "k": claim.key, "o": claim.owner} for claim in claims]
    connection.execute(delete(leases).where(where), given_up)


def renew(connection: Connection, changes: list[str]) -> None:
    """A sign of life of some owners: their leases and runs hold on."""
    now = time.time()
    owners = list(dict.fromkeys(changes))
    connection.execute(update(leases).where(leases.c.owner.in_(owners)).values(expires=now + LEASE))
    connection.execute(update(runs).where(runs.c.owner.in_(owners)).values(seen=now))
    connection.execute(update(ledger).where(ledger.c.owner.in_(owners)).values(seen=now))


def forget_owner(connection: Connection, changes: list[str]) -> None:
    """Delete the leases of owners that end, and leave their runs without an owner."""
    connection.execute(delete(leases).where(leases.c.owner.in_(changes)))
    connection.execute(update(runs).where(runs.c.owner.in_(changes)).values(owner=""))


# --- how statements reach the driver ---


def write_many(connection: Connection, statement: Executable, rows: Sequence[Row]) -> int:
    """Carry out a statement for each row, and say how many rows it changed.

    Args:
        connection: within a transaction.
        statement: the same object each time, so that its SQL is kept.
        rows: values by the names of its parameters.
    """
    sql, values = _compile(statement, _kind(connection.dialect))
    with closing(connection.connection.cursor()) as cursor:
        cursor.executemany(sql, [values(row) for row in rows])
        return int(cursor.rowcount)


def read_all(connection: Connection, statement: Executable, row: Row) -> list[Any]:
    """The rows of a query, each a plain sequence; the arguments as of `write_many`."""
    sql, values = _compile(statement, _kind(connection.dialect))
    with closing(connection.connection.cursor()) as cursor:
        cursor.execute(sql, values(row))
        return list(cursor.fetchall())


_KINDS: dict[str, Dialect] = {}


def _kind(dialect: Dialect) -> Dialect:
    """The dialect of the first database of this kind: each connection to one has its own."""
    return _KINDS.setdefault(dialect.driver, dialect)


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
