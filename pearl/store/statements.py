"""What is written of a run, and how: entries, replies, rows and runs, many at a time.

What every call needs goes straight to the driver (`write_many`, `read_all`): SQLAlchemy writes the
SQL, once for each kind of database; to put it together and to wrap results anew for each call takes
longer than the database does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache, lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import Insert, Table, and_, bindparam, delete, insert, update

from pearl.store.tables import entries, leases, replies, rows, runs

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Dialect, Executable

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


END_LEASE = delete(leases).where(
    and_(leases.c.scope == bindparam("s"), leases.c.key == bindparam("k"))
)


def add_entries(connection: Connection, changes: list[Row]) -> None:
    """Append journal entries."""
    write_many(connection, _ADD_ENTRY, changes)


def add_replies(connection: Connection, changes: list[Row]) -> None:
    """Keep replies, and give up the leases on their keys."""
    changes.sort(key=lambda row: (row["scope"], row["key"]))
    write_many(connection, _keeping(connection.dialect.name), changes)
    # Whoever took such a call over meanwhile finds its reply.
    write_many(connection, END_LEASE, [{"s": row["scope"], "k": row["key"]} for row in changes])


def put_rows(connection: Connection, changes: list[Row]) -> None:
    """Put a batch's results; a later one of the same question replaces it."""
    last = {(row["run"], row["id"]): row for row in changes}
    write_many(connection, _replacing(connection.dialect.name), list(last.values()))


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
    statement = insert_into(table, dialect).values(params(table))
    key = [column.name for column in table.primary_key]
    replaced = {name: column for name, column in statement.excluded.items() if name not in key}
    upsert: Insert = statement.on_conflict_do_update(index_elements=key, set_=replaced, where=where)
    return upsert


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
