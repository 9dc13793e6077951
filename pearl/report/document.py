"""A report, independent of its form: tables from rows of numbers, charts, and text.

A table's cells are texts for readers, formatted the same in every report; its data rows
keep the numbers for programs. They are plain dictionaries: pandas would save no
line here, as each column is formatted in its own way, and takes half a second to load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Any, Literal, TypeAlias

Align: TypeAlias = Literal["left", "right"]
Kind: TypeAlias = Literal["bars", "line", "scatter"]

LABEL = 34
"""The most characters of a label in a chart."""


@dataclass(frozen=True, slots=True)
class Text:
    """Paragraphs, one a string."""

    paragraphs: tuple[str, ...]


Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column.

    Args:
        title: the column's title.
        align: how its cells are aligned.
        show: makes a row's cell, for `build`.
    """

    title: str
    align: Align = "right"
    show: Callable[[Row], str] = lambda _: ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns.

    Args:
        title: the title above the table.
        columns: from left to right; the first one names the row.
        rows: the cells, as a reader sees them.
        note: what a reader must know; shown below the table.
        data: the rows for programs, with numbers as numbers; empty where the
            cells say it all.
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
        x: its place on the horizontal axis; bars are placed by their labels instead.
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
        """How far its interval extends below and above the value; 0 where it has none."""
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
        title: its title.
        series: what is drawn.
        y_label: what the values are, with their unit.
        x_label: what the horizontal axis shows; empty for bars.
        bottom: where the axis of values starts; bars start at 0.
        top: where the axis of values ends; by default just above the largest value.
        unit: written after a value, as `` %``.
        digits: decimal places of a value.
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
        """The title for a drawing without axis labels."""
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
        """The entries of a legend, each with its points: series, with points from left to right.

        Of a scatter each point is an entry, as labels beside the points could overlap.
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
    """Tables, charts and text, in order.

    Args:
        title: its title.
        about: facts at its head, each with a name.
        blocks: its content.
    """

    title: str
    about: tuple[tuple[str, str], ...]
    blocks: tuple[Block, ...] = ()


def describe(chart: Chart) -> str:
    """A chart in words, for readers who cannot see it: its first 12 values."""
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
    """A point's label, after the name of its series, if that has one."""
    return ", ".join(part for part in (series.name, point.label) if part)


def build(title: str, columns: Sequence[Column], rows: Iterable[Row], note: str = "") -> Table:
    """Build a table from rows of numbers.

    Args:
        title: the title above it.
        columns: the columns, which make the cells.
        rows: the rows that cells are made from; they are also the table's data.
        note: the note below it.
    """
    data = tuple(rows)
    cells = tuple(tuple(column.show(row) for column in columns) for row in data)
    return Table(title, tuple(columns), cells, note, data)


def words(key: str, title: str) -> Column:
    """A column of words."""
    return Column(title, "left", lambda row: str(row[key]))


def figure(key: str, title: str, show: Callable[[Any], str]) -> Column:
    """A column of the values under ``key`` of each row, formatted by ``show``."""
    return Column(title, show=lambda row: show(row[key]))


def counts(**titles: str) -> list[Column]:
    """Columns of whole numbers, given their titles by the rows' keys."""
    return [figure(key, title, number) for key, title in titles.items()]


def pair(keys: tuple[str, str], title: str, show: Callable[[Any, Any], str]) -> Column:
    """A column whose cells are made from two numbers, such as intervals."""
    return Column(title, show=lambda row: show(row[keys[0]], row[keys[1]]))


NONE = "–"
"""The cell for a missing number."""


def percent(share: float | None) -> str:
    """A share from 0 to 1 as ``72.2 %``."""
    return NONE if share is None else f"{100 * share:.1f} %"


def points(difference: float | None) -> str:
    """A difference of shares in percentage points, ``+3.4``."""
    return NONE if difference is None else _signed(100 * difference)


def span(low: float | None, high: float | None) -> str:
    """An interval of shares in percent, ``69.4–74.9``."""
    return NONE if low is None or high is None else f"{100 * low:.1f}–{100 * high:.1f}"


def signed_span(low: float | None, high: float | None) -> str:
    """An interval of a difference of shares in percentage points, ``−0.9 to +5.4``."""
    return NONE if low is None or high is None else f"{_signed(100 * low)} to {_signed(100 * high)}"


def number(value: float | None, digits: int = 0) -> str:
    """``1,000``, or ``−0.5``."""
    return NONE if value is None else f"{value:z,.{digits}f}".replace("-", "−")


def times(value: float | None) -> str:
    """``2.9 ×``."""
    return NONE if value is None else f"{value:,.1f} ×"


def probability(p: float | None) -> str:
    """A p-value with about two significant digits."""
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
    """Split columns into as few parts as possible, of about the same width.

    Args:
        widths: the widths of the columns, in characters.
        width: the most characters of a part.
        gap: characters between two columns.

    Returns:
        For each part the indices of its columns; the first column is in every part.
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
    """A report as JSON data; the rows of tables are objects, with numbers as numbers."""
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
