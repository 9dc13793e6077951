"""Tables from rows of numbers: the cells for a reader, the numbers for a program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pearl.report.document import Align, Column, Table

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A column, and how its cells are made.

    Args:
        title: the column's.
        show: a row's cell.
        align: the column's.
    """

    title: str
    show: Callable[[Row], str]
    align: Align = "right"


def build(title: str, fields: Sequence[Field], rows: Iterable[Row], note: str = "") -> Table:
    """A table.

    Args:
        title: what it tells.
        fields: its columns.
        rows: what the cells are made of; they are the table's data as well.
        note: stands below it.
    """
    data = tuple(rows)
    return Table(
        title=title,
        columns=tuple(Column(field.title, field.align) for field in fields),
        rows=tuple(tuple(field.show(row) for field in fields) for row in data),
        note=note,
        data=data,
    )


def words(key: str, title: str) -> Field:
    """A column of words."""
    return Field(title, lambda row: str(row[key]), "left")


def figure(key: str, title: str, show: Callable[[Any], str]) -> Field:
    """A column of numbers.

    Args:
        key: where the number stands in a row.
        title: the column's.
        show: a number as a reader sees it.
    """
    return Field(title, lambda row: show(row[key]))


def pair(keys: tuple[str, str], title: str, show: Callable[[Any, Any], str]) -> Field:
    """A column of which each cell is made of two numbers, as an interval is."""
    return Field(title, lambda row: show(row[keys[0]], row[keys[1]]))
