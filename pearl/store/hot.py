"""Statements that every call needs, straight to the driver.

SQLAlchemy writes the SQL, once for each kind of database; to put it together
and to wrap results anew for each call takes longer than the database does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from sqlalchemy import Connection, Dialect, Executable

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
