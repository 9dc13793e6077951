"""A report: what every form of it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Align: TypeAlias = Literal["left", "right"]
Kind: TypeAlias = Literal["bars", "line", "scatter"]


@dataclass(frozen=True, slots=True)
class Text:
    """Paragraphs, one a string."""

    paragraphs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column."""

    title: str
    align: Align = "right"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns.

    Args:
        title: what it tells, over the table.
        columns: from left to right; the first one names the row.
        rows: cells, as a reader sees them.
        note: what a reader must know to read it; below the table.
        data: the rows for machines, with numbers as numbers; empty where the
            cells say all there is.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    data: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Point:
    """A value in a chart.

    Args:
        label: what it is the value of.
        y: the value.
        x: where it stands; bars stand by their labels alone.
        low: the lower end of its interval; None where it has none.
        high: the upper end.
    """

    label: str
    y: float
    x: float = 0.0
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """Points that belong together, under one name; a chart with one needs no name."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture of numbers.

    Args:
        kind: ``bars`` by label; a ``line`` over numbers; ``scatter``, points
            with labels.
        title: what it tells.
        series: what is drawn.
        y_label: what the values are, with their unit.
        x_label: what they stand over; empty for bars.
        bottom: where the axis of the values starts; bars start at 0.
        top: where it ends; by default past the largest.
        unit: stands behind a value, as `` %``.
        digits: behind the decimal point of a value.
    """

    kind: Kind
    title: str
    series: tuple[Series, ...]
    y_label: str
    x_label: str = ""
    bottom: float = 0.0
    top: float | None = None
    unit: str = ""
    digits: int = 1

    def shown(self, value: float) -> str:
        """A value as a reader sees it."""
        return f"{value:,.{self.digits}f}{self.unit}"

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of all points, each once, in order."""
        return tuple(dict.fromkeys(point.label for one in self.series for point in one.points))

    @property
    def end(self) -> float:
        """Where the axis of the values ends."""
        if self.top is not None:
            return self.top
        ends = [point.high or point.y for one in self.series for point in one.points]
        return max(ends, default=0.0) * 1.05 or 1.0


Block: TypeAlias = Text | Table | Chart


@dataclass(frozen=True, slots=True)
class Report:
    """Tables, charts and words, in order.

    Args:
        title: of all of it.
        about: facts, each with its name.
        blocks: what is told.
    """

    title: str
    about: tuple[tuple[str, str], ...]
    blocks: tuple[Block, ...] = field(default=())


def described(chart: Chart) -> str:
    """A chart in one sentence, for who cannot see it; a table beside it has the figures."""
    kinds = {"bars": "Bars", "line": "Lines", "scatter": "Points"}
    over = f" over {chart.x_label}" if chart.x_label else ""
    values = [
        f"{name}{chart.shown(point.y)}"
        for one in chart.series
        for point in one.points
        if (name := f"{_named(one.name, point.label)}: ")
    ]
    shown = "; ".join(values[:12]) + ("; …" if len(values) > 12 else "")
    return f"{kinds[chart.kind]}: {chart.y_label}{over}. {shown}."


def _named(series: str, label: str) -> str:
    return ", ".join(part for part in (series, label) if part)
