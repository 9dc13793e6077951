"""A report, which every form of it takes: tables from rows of numbers, charts, and words.

A table's cells are for a reader, and written alike in every report; its rows
keep the numbers for a program. They are plain dictionaries: pandas would save no
line here, as each column is written in its own way, and takes half a second to load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Any, Literal, TypeAlias

Align: TypeAlias = Literal["left", "right"]
Kind: TypeAlias = Literal["bars", "line", "scatter"]

LABEL = 34
"""Columns that a label in a chart may take."""


@dataclass(frozen=True, slots=True)
class Text:
    """Paragraphs, one a string."""

    paragraphs: tuple[str, ...]


Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column.

    Args:
        title: at its head.
        align: of its cells.
        show: a row's cell, where `build` makes the cells.
    """

    title: str
    align: Align = "right"
    show: Callable[[Row], str] = lambda _: ""


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

    @property
    def spread(self) -> tuple[float, float]:
        """How far its interval goes below and above the value; 0 where it has none."""
        low = self.y if self.low is None else self.low
        high = self.y if self.high is None else self.high
        return max(0.0, self.y - low), max(0.0, high - self.y)


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

    @property
    def heading(self) -> str:
        """Its title where it stands without labels at its sides."""
        over = f" by {self.x_label}" if self.kind == "line" else ""
        return f"{self.title} ({self.y_label}{over})"

    def shown(self, value: float) -> str:
        """A value as a reader sees it."""
        return f"{value:,.{self.digits}f}{self.unit}"

    @property
    def points(self) -> list[Point]:
        """The points of all series, in order."""
        return [point for series in self.series for point in series.points]

    @property
    def plots(self) -> list[tuple[str, list[Point]]]:
        """What is drawn alike, under its name in a legend: series, their points from left to right.

        Of a scatter it is each point, as names beside the points would meet.
        """
        if self.kind == "scatter":
            return [
                (point_name(plot, point), [point]) for plot in self.series for point in plot.points
            ]
        by_place = attrgetter("x")
        return [(series.name, sorted(series.points, key=by_place)) for series in self.series]

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of all points, each once, in order."""
        return tuple(dict.fromkeys(point.label for point in self.points))

    @property
    def last(self) -> float:
        """The largest x of the points; 0 without any."""
        return max((point.x for point in self.points), default=0.0)

    @property
    def end(self) -> float:
        """The upper end of the axis of values."""
        if self.top is not None:
            return self.top
        return max((point.high or point.y for point in self.points), default=0.0) * 1.05 or 1.0


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
    blocks: tuple[Block, ...] = ()


def describe(chart: Chart) -> str:
    """A chart in one sentence, for who cannot see it; a table beside it has the figures."""
    kinds = {"bars": "Bars", "line": "Lines", "scatter": "Points"}
    over = f" over {chart.x_label}" if chart.x_label else ""
    values = [
        f"{point_name(series, point)}: {chart.shown(point.y)}"
        for series in chart.series
        for point in series.points
    ]
    shown = "; ".join(values[:12]) + ("; …" if len(values) > 12 else "")
    return f"{kinds[chart.kind]}: {chart.y_label}{over}. {shown}."


def point_name(series: Series, point: Point) -> str:
    """A point's label, behind its series' name where that has one."""
    return ", ".join(part for part in (series.name, point.label) if part)


def build(title: str, columns: Sequence[Column], rows: Iterable[Row], note: str = "") -> Table:
    """A table.

    Args:
        title: what it tells.
        columns: how its cells are made.
        rows: what the cells are made of; they are the table's data as well.
        note: stands below it.
    """
    data = tuple(rows)
    cells = tuple(tuple(column.show(row) for column in columns) for row in data)
    return Table(title, tuple(columns), cells, note, data)


def words(key: str, title: str) -> Column:
    """A column of words."""
    return Column(title, "left", lambda row: str(row[key]))


def figure(key: str, title: str, show: Callable[[Any], str]) -> Column:
    """A column of the numbers that stand under ``key`` of a row, as ``show`` has them."""
    return Column(title, show=lambda row: show(row[key]))


def counts(**titles: str) -> list[Column]:
    """Columns of whole numbers: their titles, by where the numbers stand in a row."""
    return [figure(key, title, number) for key, title in titles.items()]


def pair(keys: tuple[str, str], title: str, show: Callable[[Any, Any], str]) -> Column:
    """A column of which each cell is made of two numbers, as an interval is."""
    return Column(title, show=lambda row: show(row[keys[0]], row[keys[1]]))


NONE = "–"
"""What stands where there is no number."""


def percent(share: float | None) -> str:
    """``72.2 %``, of a share from 0 to 1."""
    return NONE if share is None else f"{100 * share:.1f} %"


def points(difference: float | None) -> str:
    """``+3.4``: a difference of shares, in points of a hundred."""
    return NONE if difference is None else _signed(100 * difference)


def span(low: float | None, high: float | None) -> str:
    """``69.4–74.9``: an interval of shares, in hundredths."""
    return NONE if low is None or high is None else f"{100 * low:.1f}–{100 * high:.1f}"


def signed_span(low: float | None, high: float | None) -> str:
    """``-0.9 to +5.4``: an interval of a difference, in points of a hundred."""
    if low is None or high is None:
        return NONE
    return f"{_signed(100 * low)} to {_signed(100 * high)}"


def number(value: float | None, digits: int = 0) -> str:
    """``1,000``."""
    return NONE if value is None else f"{value:,.{digits}f}"


def times(value: float | None) -> str:
    """``2.9 ×``."""
    return NONE if value is None else f"{value:,.1f} ×"


def probability(p: float | None) -> str:
    """A p-value: two digits that count, and no zeros without end."""
    if p is None:
        return NONE
    if p < 0.0001:
        return "<0.0001"
    if p >= 0.995:
        return "1.00"
    return f"{p:.2f}" if p >= 0.1 else f"{p:.3f}" if p >= 0.01 else f"{p:.4f}"


def _signed(value: float) -> str:
    shown = f"{value:+.1f}"
    return "0.0" if shown in ("+0.0", "-0.0") else shown.replace("-", "−")


def wide(widths: Sequence[int], gap: int) -> int:
    """The width of columns with gaps between them."""
    return sum(widths) + gap * (len(widths) - 1)


def parts(widths: Sequence[int], width: int, gap: int) -> list[list[int]]:
    """Columns in as few parts as fit, about as wide as each other.

    Args:
        widths: of the columns.
        width: what a part may take.
        gap: between two columns.

    Returns:
        The columns of each part, by number; the first column is in every part.
    """

    def split(limit: int) -> list[list[int]]:
        lists: list[list[int]] = [[0]]
        for at in range(1, len(widths)):
            if len(lists[-1]) > 1 and wide([widths[x] for x in (*lists[-1], at)], gap) > limit:
                lists.append([0])
            lists[-1].append(at)
        return lists

    widest = split(width)
    tries = map(split, range(max(widths[0] + gap, 20), width))
    return next((lists for lists in tries if len(lists) == len(widest)), widest)


def as_object(report: Report) -> dict[str, Any]:
    """A report as JSON data: every table as objects, with numbers where there are any."""
    blocks: list[dict[str, Any]] = []
    for block in report.blocks:
        if isinstance(block, Table):
            titles = [column.title for column in block.columns]
            rows = block.data or [dict(zip(titles, row, strict=True)) for row in block.rows]
            blocks.append({"table": block.title, "rows": list(map(dict, rows)), "note": block.note})
        elif isinstance(block, Chart):
            axes = {"x": block.x_label, "y": block.y_label}
            series = [asdict(series) for series in block.series]
            blocks.append({"chart": block.title, "kind": block.kind, **axes, "series": series})
        else:
            blocks.append({"text": list(block.paragraphs)})
    return {"title": report.title, "about": dict(report.about), "blocks": blocks}
