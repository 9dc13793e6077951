"""The changes that a `Writer` carries out: each function takes all of its kind at once.

What every call needs goes straight to the driver (`write_many`, `read_all`):
SQLAlchemy writes the SQL, once for each kind of database; to put it together
and to wrap results anew for each call takes longer than the database does.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
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

from pearl.models.base import Reply, Usage
from pearl.store.database import is_dead
from pearl.store.tables import entries, leases, ledger, replies, rows, runs

if TYPE_CHECKING:
    from sqlalchemy import Connection, Dialect, Executable

Row: TypeAlias = dict[str, Any]

LEASE = 60.0
"""Seconds for which a call under way is its maker's, unless it renews the lease."""

_AT_ONCE = 400
"""Keys in one look-up: databases limit the parameters of a statement."""


def _named(table: Table) -> dict[str, Any]:
    """Each column from the parameter of its name."""
    columns = (column for column in table.c if column.autoincrement is not True)
    return {column.name: bindparam(column.name, type_=column.type) for column in columns}


_ADD_ENTRY = insert(entries).values(_named(entries))
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
    write_many(connection, _ADD_ENTRY, changes)


def add_replies(connection: Connection, changes: list[Row]) -> None:
    """Keep replies, and give up the leases on their keys."""
    changes.sort(key=lambda row: (row["scope"], row["key"]))
    write_many(connection, _keeping(connection.dialect.name), changes)
    # Whoever took such a call over meanwhile finds its reply.
    write_many(connection, _END_LEASE, [{"s": row["scope"], "k": row["key"]} for row in changes])


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
    make = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = make(rows)
    replaced = {
        name: statement.excluded[name] for name in ("position", "row_key", "status", "result")
    }
    connection.execute(
        statement.on_conflict_do_update(index_elements=["run", "id"], set_=replaced),
        list(last.values()),
    )


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
        changed = {name: row[name] for name in ("owner", "seen", "ended")}
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
    wanted = dict(sorted({(claim.scope, claim.key): claim for claim in changes}.items()))
    fresh = [{**claim._asdict(), "expires": now + LEASE} for claim in wanted.values()]
    all_new = write_many(connection, _leasing(connection.dialect.name), fresh) == len(fresh)
    answered = _replies(connection, wanted.values())
    verdicts: dict[tuple[str, str], Reply | bool] = dict(answered)
    asked = [claim for place, claim in wanted.items() if place not in answered]
    held = {} if all_new else _leases(connection, asked)
    for one in asked:
        place = one.scope, one.key
        if all_new:
            verdicts[place] = True
            continue
        # On a server another process may have kept the reply, or given up, since the look-up
        # above: then no lease is there, and the claimer looks again.
        owner, expires = held.get(place, ("", 0.0))
        verdicts[place] = place in held and (
            owner == one.owner or _take_over(connection, one, owner, expires, now)
        )
    if answered:
        give_up(connection, [wanted[place] for place in answered])
    return [verdicts[one.scope, one.key] for one in changes]


def _take_over(connection: Connection, one: Claim, owner: str, expires: float, now: float) -> bool:
    """Take a dead process's lease, unless another one was faster."""
    if now < expires and not is_dead(owner, expires - LEASE, now):
        return False
    where = and_(leases.c.scope == one.scope, leases.c.key == one.key, leases.c.owner == owner)
    changed = connection.execute(
        update(leases).where(where).values(owner=one.owner, expires=now + LEASE)
    )
    return changed.rowcount == 1


@cache
def _leasing(dialect: str) -> Insert:
    """Take leases; one that is there stays as it is."""
    make = postgresql.insert if dialect == "postgresql" else sqlite.insert
    return make(leases).values(_named(leases)).on_conflict_do_nothing()


@cache
def _keeping(dialect: str) -> Insert:
    """Keep replies; one that was cut off makes room for another, a whole one stays."""
    make = postgresql.insert if dialect == "postgresql" else sqlite.insert
    statement = make(replies).values(_named(replies))
    names = [column.name for column in replies.c if not column.primary_key]
    return statement.on_conflict_do_update(
        index_elements=["scope", "key"],
        set_={name: statement.excluded[name] for name in names},
        where=~replies.c.complete,
    )


def _by_scope(claims: Iterable[Claim]) -> Iterator[tuple[str, list[str]]]:
    """Scopes with their keys, some at a time."""
    scopes: dict[str, list[str]] = {}
    for claim in claims:
        scopes.setdefault(claim.scope, []).append(claim.key)
    for scope, keys in scopes.items():
        for at in range(0, len(keys), _AT_ONCE):
            yield scope, keys[at : at + _AT_ONCE]


def _replies(connection: Connection, claims: Iterable[Claim]) -> dict[tuple[str, str], Reply]:
    found: dict[tuple[str, str], Reply] = {}
    for scope, keys in _by_scope(claims):
        values = {"scope": scope, **{f"k{number}": key for number, key in enumerate(keys)}}
        for key, text, *tokens in read_all(connection, _looking_up(len(keys)), values):
            found[scope, key] = Reply(text, Usage(*tokens), kept=True)
    return found


@lru_cache(maxsize=128)
def _looking_up(count: int) -> Select[Any]:
    """Look up so many calls; a reply that was cut off helps nobody, and is asked for again."""
    keys: list[BindParameter[str]] = [bindparam(f"k{number}") for number in range(count)]
    tokens = (replies.c.prompt_tokens, replies.c.completion_tokens, replies.c.cached_tokens)
    where = and_(replies.c.scope == bindparam("scope"), replies.c.key.in_(keys), replies.c.complete)
    return select(replies.c.key, replies.c.text, *tokens).where(where)


def _leases(
    connection: Connection, claims: Iterable[Claim]
) -> dict[tuple[str, str], tuple[str, float]]:
    """Who holds a call, and until when, by scope and key."""
    found: dict[tuple[str, str], tuple[str, float]] = {}
    for scope, keys in _by_scope(claims):
        where = and_(leases.c.scope == scope, leases.c.key.in_(keys))
        for row in connection.execute(select(leases).where(where)):
            found[scope, row.key] = (row.owner, row.expires)
    return found


def forget_owner(connection: Connection, changes: list[str]) -> None:
    """Let go of everything that some owners hold: they end."""
    connection.execute(delete(leases).where(leases.c.owner.in_(changes)))
    connection.execute(update(runs).where(runs.c.owner.in_(changes)).values(owner=""))


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
