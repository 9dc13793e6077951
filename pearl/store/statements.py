"""The changes to a store, many at a time: entries, replies and rows of runs, and leases on calls.

A lease on a call's key says which process is making the call, so that no call is made twice. A
process that finds a lease waits; the lease of a process that has died may be taken over.

The statements of every call go straight to the driver (`write_many`, `read_all`). SQLAlchemy only
writes their SQL, once for each kind of database, because compiling statements and wrapping results
for each call would take longer than the database does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import cache, lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from sqlalchemy import Insert, Select, Table, bindparam, case, delete, func, insert, select, update

from pearl.models.base import Reply, Usage
from pearl.store.database import is_dead
from pearl.store.tables import TOKENS, entries, leases, ledger, replies, rows, runs

if TYPE_CHECKING:
    from sqlalchemy import Connection, Dialect, Executable

Row: TypeAlias = dict[str, Any]


def insert_into(table: Table, dialect: str) -> Any:  # noqa: ANN401 - either dialect's
    """An insertion of a dialect, which can say what to do if the row exists."""
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

_END_LEASE = delete(leases).where(leases.c.scope == bindparam("s"), leases.c.key == bindparam("k"))


def add_entries(connection: Connection, changes: list[Row]) -> None:
    """Append journal entries."""
    write_many(connection, _ADD_ENTRY, changes)


def add_replies(connection: Connection, changes: list[Row]) -> None:
    """Store replies, and end the leases on their keys."""
    changes.sort(key=lambda row: (row["scope"], row["key"]))
    write_many(connection, _upsert(replies, connection.dialect.name), changes)
    # Whoever owns the lease: a process that has taken it over finds the reply.
    write_many(connection, _END_LEASE, [{"s": row["scope"], "k": row["key"]} for row in changes])


def put_rows(connection: Connection, changes: list[Row]) -> None:
    """Store a batch's results; a later one of the same question replaces an earlier one."""
    last = {(row["run"], row["id"]): row for row in changes}
    write_many(connection, _upsert(rows, connection.dialect.name), list(last.values()))


_ROW = (rows.c.run == bindparam("r"), rows.c.id == bindparam("i"))


def move_rows(connection: Connection, changes: list[Row]) -> None:
    """Change the positions of questions in their file."""
    connection.execute(update(rows).where(*_ROW).values(position=bindparam("p")), changes)


def drop_rows(connection: Connection, changes: list[Row]) -> None:
    """Delete results."""
    connection.execute(delete(rows).where(*_ROW), changes)


def put_runs(connection: Connection, changes: list[Row]) -> None:
    """Record that runs start or are resumed."""
    # The end of a run that was interrupted is its last heartbeat.
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
    """Record that runs have ended."""
    connection.execute(update(runs).where(runs.c.id.in_(changes)).values(ended=time.time()))


@cache
def _upsert(table: Table, dialect: str) -> Insert:
    """Add a row, or replace the one with its key; but a complete reply is not replaced."""
    where = ~table.c.complete if table is replies else None
    statement = insert_into(table, dialect).values(params(table))
    key = [column.name for column in table.primary_key]
    replaced = {name: column for name, column in statement.excluded.items() if name not in key}
    upsert: Insert = statement.on_conflict_do_update(index_elements=key, set_=replaced, where=where)
    return upsert


# --- which process makes a call ---

LEASE = 60.0
"""Seconds after which a lease expires, unless its owner renews it."""

_AT_ONCE = 400
"""The most keys in one look-up, as databases limit the parameters of a statement."""


class Claim(NamedTuple):
    """A call that an owner wants to make, or to have the reply of."""

    scope: str
    key: str
    owner: str


def claim(connection: Connection, changes: list[Claim]) -> list[Reply | bool]:
    """Look calls up, and take leases on those that are neither answered nor being made.

    Each claim gets the reply, or True where the claimer is to make the call, or
    False where another process is making it.

    The lease is taken before the look-up: in the other order, a reply that
    another process commits in between would be missed, and paid for again.
    """
    now = time.time()
    claims = dict(sorted({(claim.scope, claim.key): claim for claim in changes}.items()))
    fresh = [{**claim._asdict(), "expires": now + LEASE} for claim in claims.values()]
    all_new = write_many(connection, _leasing(connection.dialect.name), fresh) == len(fresh)
    answered: dict[tuple[str, str], Reply] = {}
    for scope, keys in _by_scope(claims):
        # Filled up with the last key, so that a query is compiled for few numbers of keys.
        keys += keys[-1:] * ((1 << (len(keys) - 1).bit_length()) - len(keys))
        values = {"scope": scope, **{f"k{number}": key for number, key in enumerate(keys)}}
        for key, text, *tokens in read_all(connection, _looking_up(len(keys)), values):
            answered[scope, key] = Reply(text, Usage(*tokens), kept=True)
    missing = [place for place in claims if place not in answered]
    # The owner of the lease on a call, and when it expires.
    held: dict[tuple[str, str], tuple[str, float]] = {}
    for scope, keys in _by_scope([] if all_new else missing):
        query = select(leases).where(leases.c.scope == scope, leases.c.key.in_(keys))
        for row in connection.execute(query):
            held[scope, row.key] = (row.owner, row.expires)
    verdicts: dict[tuple[str, str], Reply | bool] = dict(answered)
    for place in missing:
        # On a server, another process may have stored the reply or given up since the look-up:
        # then there is no lease, and the claimer looks again.
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
    """Take over the lease of a dead process, unless another process was faster."""
    if now < expires and not is_dead(owner, expires - LEASE, now):
        return False
    statement = update(leases).values(owner=call.owner, expires=now + LEASE)
    where = (leases.c.scope == call.scope, leases.c.key == call.key, leases.c.owner == owner)
    return connection.execute(statement.where(*where)).rowcount == 1


@cache
def _leasing(dialect: str) -> Insert:
    """The statement that takes leases; an existing lease stays as it is."""
    statement: Insert = insert_into(leases, dialect).values(params(leases)).on_conflict_do_nothing()
    return statement


def _by_scope(places: Iterable[tuple[str, str]]) -> Iterator[tuple[str, list[str]]]:
    """Scopes with their keys, at most `_AT_ONCE` at a time."""
    scopes: dict[str, list[str]] = {}
    for scope, key in places:
        scopes.setdefault(scope, []).append(key)
    for scope, keys in scopes.items():
        for at in range(0, len(keys), _AT_ONCE):
            yield scope, keys[at : at + _AT_ONCE]


@cache
def _looking_up(count: int) -> Select[Any]:
    """The query for ``count`` calls' replies, without those that were cut."""
    query = select(replies.c.key, replies.c.text, *(replies.c[name] for name in TOKENS))
    query = query.where(replies.c.key.in_([bindparam(f"k{number}") for number in range(count)]))
    return query.where(replies.c.scope == bindparam("scope"), replies.c.complete)


def give_up(connection: Connection, claims: list[Claim]) -> None:
    """End leases, if the claimers still own them."""
    own = _END_LEASE.where(leases.c.owner == bindparam("o"))
    given_up = [{"s": claim.scope, "k": claim.key, "o": claim.owner} for claim in claims]
    connection.execute(own, given_up)


def renew(connection: Connection, changes: list[str]) -> None:
    """Record the heartbeat of owners, which renews their leases, runs and reservations."""
    now = time.time()
    owners = list(dict.fromkeys(changes))
    connection.execute(update(leases).where(leases.c.owner.in_(owners)).values(expires=now + LEASE))
    connection.execute(update(runs).where(runs.c.owner.in_(owners)).values(seen=now))
    connection.execute(update(ledger).where(ledger.c.owner.in_(owners)).values(seen=now))


def forget_owner(connection: Connection, changes: list[str]) -> None:
    """Delete the leases of owners whose processes end, and remove the owner from their runs."""
    connection.execute(delete(leases).where(leases.c.owner.in_(changes)))
    connection.execute(update(runs).where(runs.c.owner.in_(changes)).values(owner=""))


# --- how statements reach the driver ---


def write_many(connection: Connection, statement: Executable, rows: Sequence[Row]) -> int:
    """Execute a statement for each row, and return the number of rows that it changed.

    Args:
        connection: a connection within a transaction.
        statement: the same object each time, so that its SQL is cached.
        rows: values by the names of its parameters.
    """
    sql, values = _compile(statement, _kind(connection.dialect))
    with closing(connection.connection.cursor()) as cursor:
        cursor.executemany(sql, [values(row) for row in rows])
        return int(cursor.rowcount)


def read_all(connection: Connection, statement: Executable, row: Row) -> list[Any]:
    """The rows of a query, each a plain sequence, for the values of its parameters in ``row``."""
    sql, values = _compile(statement, _kind(connection.dialect))
    with closing(connection.connection.cursor()) as cursor:
        cursor.execute(sql, values(row))
        return list(cursor.fetchall())


_KINDS: dict[str, Dialect] = {}


def _kind(dialect: Dialect) -> Dialect:
    """One dialect for all databases of a kind, as a key of caches: each engine has its own."""
    return _KINDS.setdefault(dialect.driver, dialect)


@lru_cache(maxsize=256)
def _compile(statement: Any, dialect: Dialect) -> tuple[str, Callable[[Row], Any]]:  # noqa: ANN401
    """The SQL of a statement, and a function that turns a row into the driver's parameters."""
    compiled = statement.compile(dialect=dialect)
    places = compiled.positiontup
    if places is None:
        return str(compiled), dict
    if len(places) > 1:
        return str(compiled), itemgetter(*places)
    return str(compiled), lambda row: tuple(row[name] for name in places)
