"""Charts in characters, for terminals and for Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from pearl.report.document import Chart, Point
from pearl.screen import cells, printable

_EIGHTHS = " ▏▎▍▌▋▊▉"
_NARROWEST = 10
_WIDEST = 44
_LABEL = 34
"""Columns that a label may take."""

_HIGH = 12
_MARKS = "abcdefghijklmnopqrstuvwxyz"


def drawn(chart: Chart, width: int) -> list[str]:
    """A chart as lines of text.

    Args:
        chart: what to draw.
        width: columns there are.
    """
    return list(_scatter(chart, width) if chart.kind == "scatter" else _bars(chart, width))


def fit(text: str, width: int) -> str:
    """A text in at most so many columns, cut with ``…``."""
    text = printable(text).replace("\t", " ")
    if cells(text) <= width:
        return text
    while text and cells(text) > width - 1:
        text = text[:-1]
    return f"{text}…"


def pad(text: str, width: int, *, right: bool = False) -> str:
    """A text in just so many columns."""
    space = " " * (width - cells(text))
    return space + text if right else text + space


def _bars(chart: Chart, width: int) -> Iterator[str]:
    """A bar a point, under its series' name; over numbers, the numbers are the labels."""
    points = [point for one in chart.series for point in one.points]
    labels = {id(point): fit(_label(chart, point), _LABEL) for point in points}
    told = {id(point): _told(chart, point) for point in points}
    margin = max((cells(label) for label in labels.values()), default=0)
    figures = [max((len(pair[at]) for pair in told.values()), default=0) for at in (0, 1)]
    room = max(_NARROWEST, min(_WIDEST, width - margin - sum(figures) - 6))
    several = len(chart.series) > 1
    for at, one in enumerate(chart.series):
        if several:
            yield from ("",) if at else ()
            yield fit(one.name, width)
        for point in one.points:
            bar = pad(_bar(point.y / chart.end, room), room)
            value, spread = told[id(point)]
            shown = f"{pad(labels[id(point)], margin)}  {bar}  {value:>{figures[0]}}  {spread}"
            yield shown.rstrip()


def _label(chart: Chart, point: Point) -> str:
    return f"{point.x:g}" if chart.kind == "line" else point.label


def _told(chart: Chart, point: Point) -> tuple[str, str]:
    if point.low is None or point.high is None:
        return chart.shown(point.y), ""
    ends = (f"{end:,.{chart.digits}f}" for end in (point.low, point.high))
    return chart.shown(point.y), "–".join(ends)


def _bar(share: float, room: int) -> str:
    eighths = round(max(0.0, min(1.0, share)) * room * 8)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def _scatter(chart: Chart, width: int) -> Iterator[str]:
    """Letters in a frame, and what each stands for."""
    points = [(one.name, point) for one in chart.series for point in one.points]
    last = max((point.x for _, point in points), default=0.0) * 1.05 or 1.0
    scale = [chart.shown(chart.end), chart.shown(chart.bottom)]
    margin = max(map(len, scale))
    wide = max(_NARROWEST, min(60, width - margin - 4))
    grid = [[" "] * wide for _ in range(_HIGH)]
    for at, (_, point) in enumerate(points):
        height = (point.y - chart.bottom) / (chart.end - chart.bottom)
        row = _HIGH - 1 - round(min(1.0, max(0.0, height)) * (_HIGH - 1))
        column = round(min(1.0, max(0.0, point.x / last)) * (wide - 1))
        grid[row][column] = _mark(at) if grid[row][column] == " " else "*"
    for number, line in enumerate(grid):
        name = scale[0] if number == 0 else scale[1] if number == _HIGH - 1 else ""
        yield f"{name:>{margin}} │{''.join(line)}".rstrip()
    yield f"{'':{margin}} └{'─' * wide}"
    start, end = "0", _number(last)
    middle = fit(chart.x_label, wide - len(start) - len(end) - 2)
    yield f"{'':{margin}}  {start}{middle:^{wide - len(start) - len(end)}}{end}"
    names = [", ".join(part for part in (name, point.label) if part) for name, point in points]
    margin = min(_LABEL, max(map(cells, names), default=0))
    for at, ((_, point), name) in enumerate(zip(points, names, strict=True)):
        value, spread = _told(chart, point)
        label = pad(fit(name, margin), margin)
        yield f"  {_mark(at)}  {label}  {value}  {spread}".rstrip() + f"  at {_number(point.x)}"
    if any("*" in line for line in grid):
        yield "  *  several"


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def _mark(at: int) -> str:
    return _MARKS[at] if at < len(_MARKS) else "·"
