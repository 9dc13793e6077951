"""Charts as SVG, drawn by matplotlib: plain attributes and variables for colours, no styles.

A page that shows them needs to allow no style but its own, and sets their
colours for light and for dark.

Charts in characters, for terminals and for Markdown.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from pearl.lang.text import cells, printable
from pearl.report.document import Chart, Point, described

if TYPE_CHECKING:
    from matplotlib.axes import Axes


COLOURS = ("var(--c1)", "var(--c2)", "var(--c3)", "var(--c4)", "var(--c5)", "var(--c6)")
"""Of one series after another; the page says what they are."""

_PAINT = {
    # Stand-ins while matplotlib draws: it knows no variables.
    "#010101": "var(--ink)",
    "#020202": "var(--dim)",
    "#030303": "var(--line)",
    "#040404": "var(--page)",
    **{f"#05050{at + 1}": colour for at, colour in enumerate(COLOURS)},
}
_INK, _DIM, _LINE, _PAGE = list(_PAINT)[:4]
_FILLS = list(_PAINT)[4:]
_WIDTH = 6.6
_BAR = 0.27
_LABEL = 34
_SVG = "http://www.w3.org/2000/svg"
_LINK = "http://www.w3.org/1999/xlink"
_LOOK: dict[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 10.0,
    "font.family": "DejaVu Sans",
    "axes.edgecolor": _LINE,
    "axes.labelcolor": _DIM,
    "axes.linewidth": 0.8,
    "xtick.color": _LINE,
    "xtick.labelcolor": _DIM,
    "ytick.color": _LINE,
    "ytick.labelcolor": _INK,
    "text.color": _INK,
    "grid.color": _LINE,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
}


def svg(chart: Chart, name: str) -> str:
    """A chart as an SVG element for a page.

    Args:
        chart: what to draw; its title is left to the page.
        name: unlike any other chart's on the page.

    Raises:
        ImportError: matplotlib is not installed.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    drawers = {"bars": _bars, "line": _line, "scatter": _scatter}
    look: Any = {**_LOOK, "svg.hashsalt": name}
    with matplotlib.rc_context(look):
        figure = Figure(figsize=(_WIDTH, _height(chart)), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        axes.set_axisbelow(True)
        drawers[chart.kind](axes, chart)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        if len(chart.series) > 1 and chart.kind != "scatter":
            _legend(figure, axes)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    return _plain(out.getvalue(), chart, name)


def _height(chart: Chart) -> float:
    if chart.kind != "bars":
        return 3.6
    rows = len(chart.labels) * (len(chart.series) + (0.7 if len(chart.series) > 1 else 0))
    return max(1.3, rows * _BAR + 0.75 + 0.24 * _legend_rows(chart))


def _legend_rows(chart: Chart) -> int:
    return -(-len(chart.series) // 3) if len(chart.series) > 1 else 0


def _bars(axes: Axes, chart: Chart) -> None:
    """Lying bars, so that long labels can be read; the first one on top."""
    places = {label: at for at, label in enumerate(chart.labels)}
    count = len(chart.series)
    thick = 0.68 if count == 1 else 0.82 / count
    for at, one in enumerate(chart.series):
        shift = (at - (count - 1) / 2) * thick
        ys = [places[point.label] + shift for point in one.points]
        values = [point.y for point in one.points]
        axes.barh(ys, values, thick * 0.92, color=_FILLS[at % len(_FILLS)], label=_word(one.name))
        for y, point in zip(ys, one.points, strict=True):
            _whisker(axes, point, y)
            end = point.high if point.high is not None else point.y
            axes.annotate(
                chart.shown(point.y), (end, y), (4, 0), textcoords="offset points", va="center",
                fontsize=9 if count == 1 else 8, color=_INK,
            )  # fmt: skip
    axes.set_yticks(range(len(places)), [_word(label) for label in places])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(places) - 0.5, -0.5)
    # Room for the figures behind the bars.
    axes.set_xlim(0, chart.end * 1.12)
    axes.grid(axis="x")
    axes.set_xlabel(_word(chart.y_label))
    _keep_ticks(axes, chart.end)


def _keep_ticks(axes: Axes, end: float) -> None:
    axes.set_xticks([tick for tick in axes.get_xticks() if 0 <= tick <= end * 1.001])


def _whisker(axes: Axes, point: Point, y: float) -> None:
    if point.low is None or point.high is None:
        return
    spread = [[max(0.0, point.y - point.low)], [max(0.0, point.high - point.y)]]
    axes.errorbar(
        [point.y], [y], xerr=spread, fmt="none", color=_INK, ecolor=_INK, elinewidth=1, capsize=2.5
    )


def _line(axes: Axes, chart: Chart) -> None:
    for at, one in enumerate(chart.series):
        points = sorted(one.points, key=lambda point: point.x)
        colour = _FILLS[at % len(_FILLS)]
        axes.errorbar(
            [point.x for point in points], [point.y for point in points], yerr=_spreads(points),
            fmt="o-", color=colour, ecolor=colour, elinewidth=1, capsize=3, markersize=4.5,
            label=_word(one.name),
        )  # fmt: skip
    xs = sorted({point.x for one in chart.series for point in one.points})
    axes.set_xlim(0, xs[-1] * 1.06 if xs else 1)
    axes.set_ylim(chart.bottom, chart.end)
    axes.grid(axis="y")
    axes.set_xlabel(_word(chart.x_label))
    axes.set_ylabel(_word(chart.y_label))


def _spreads(points: Sequence[Point]) -> list[list[float]]:
    lows = [point.y - (point.y if point.low is None else point.low) for point in points]
    highs = [(point.y if point.high is None else point.high) - point.y for point in points]
    return [[max(0.0, one) for one in side] for side in (lows, highs)]


def _scatter(axes: Axes, chart: Chart) -> None:
    """Points with their names beside them, moved apart where they would meet."""
    last = max((point.x for one in chart.series for point in one.points), default=0.0)
    axes.set_xlim(0, last * 1.3 or 1)
    axes.set_ylim(chart.bottom, chart.end)
    axes.grid()
    taken: list[tuple[float, float, float]] = []
    for at, one in enumerate(chart.series):
        for point in one.points:
            axes.errorbar(
                [point.x], [point.y], yerr=_spreads([point]), fmt="none", color=_DIM, ecolor=_DIM,
                elinewidth=0.8, capsize=2.5,
            )  # fmt: skip
            colour = _FILLS[at % len(_FILLS)]
            axes.plot([point.x], [point.y], "o", color=colour, markersize=5.5, zorder=5)
            name = _word(", ".join(part for part in (one.name, point.label) if part))
            _name_beside(axes, name, point, taken)
    axes.set_xlabel(_word(chart.x_label))
    axes.set_ylabel(_word(chart.y_label))


def _name_beside(
    axes: Axes, name: str, point: Point, taken: list[tuple[float, float, float]]
) -> None:
    """Write a name at its point, where no other name is yet; a thin line leads to a far one."""
    (x, y), size = axes.transData.transform((point.x, point.y)), 9.0
    dots = axes.figure.dpi / 72
    wide, high = len(name) * size * 0.62 * dots, size * 1.3 * dots
    steps = sorted(range(-12, 13), key=lambda step: (abs(step), step < 0))
    for step in steps:
        at = y + step * high
        if all(
            abs(at - other) >= high or x > right or x + wide < left for left, right, other in taken
        ):
            break
    taken.append((x, x + wide, at))
    leader = {"arrowstyle": "-", "color": _DIM, "linewidth": 0.7, "shrinkB": 3}
    axes.annotate(
        name, (point.x, point.y), (7, (at - y) / dots), textcoords="offset points", va="center",
        fontsize=size, arrowprops=leader if step else None, zorder=4,
        # Whiskers pass behind a name.
        bbox={"facecolor": _PAGE, "edgecolor": "none", "pad": 0.6},
    )  # fmt: skip


def _legend(figure: Any, axes: Axes) -> None:  # noqa: ANN401 - a figure
    handles, names = axes.get_legend_handles_labels()
    figure.legend(
        handles, names, loc="outside upper left", ncols=3, fontsize=9, handlelength=1.2,
        columnspacing=1.4,
    )  # fmt: skip


def _word(text: str) -> str:
    """A label in one line; what is no character of XML is none of a label."""
    shown = " ".join(printable(text).replace("\ufffe", "�").replace("\uffff", "�").split())
    # Names that begin with an underscore are left out of legends.
    shown = f"\u200b{shown}" if shown.startswith("_") else shown
    return shown if len(shown) <= _LABEL else f"{shown[: _LABEL - 1]}…"


def _plain(text: str, chart: Chart, name: str) -> str:
    """The drawing without prolog, metadata and styles, its names unlike any other's."""
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _LINK)
    root = ElementTree.fromstring(text)  # noqa: S314 - matplotlib wrote it just now
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"):
                parent.remove(child)
    for element in root.iter():
        for key, value in _attributes(element.attrib.pop("style", "")):
            element.set(key, value)
        for key, value in list(element.attrib.items()):
            element.set(key, _renamed(key, value, name))
    root.set("role", "img")
    root.set("aria-label", _word_whole(f"{chart.title}. {described(chart)}"))
    for size in ("width", "height"):
        root.attrib.pop(size, None)
    return ElementTree.tostring(root, encoding="unicode")


def _attributes(style: str) -> Iterator[tuple[str, str]]:
    """A style's parts as attributes; the typeface is the page's."""
    for part in style.split(";"):
        key, _, value = (one.strip() for one in part.partition(":"))
        if key == "font":
            size = re.search(r"([\d.]+)px", value)
            if size:
                yield "font-size", size[1]
        elif key and not key.startswith("font-family"):
            yield key, _PAINT.get(value, value)


def _renamed(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key == f"{{{_LINK}}}href" or value.startswith("url(#"):
        return value.replace("#", f"#{name}-", 1)
    return value


def _word_whole(text: str) -> str:
    return " ".join(printable(text).replace("\ufffe", "�").replace("\uffff", "�").split())


_EIGHTHS = " ▏▎▍▌▋▊▉"
_NARROWEST = 10
_WIDEST = 44
"""Columns that a label may take."""

_HIGH = 12
_MARKS = "abcdefghijklmnopqrstuvwxyz"


def drawn(chart: Chart, width: int) -> list[str]:
    """A chart as lines of text.

    Args:
        chart: what to draw.
        width: columns there are.
    """
    return list(
        _scatter_bars(chart, width) if chart.kind == "scatter" else _bars_bars(chart, width)
    )


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


def _bars_bars(chart: Chart, width: int) -> Iterator[str]:
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


def _scatter_bars(chart: Chart, width: int) -> Iterator[str]:
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
