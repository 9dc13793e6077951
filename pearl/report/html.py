"""Reports as one HTML file: no scripts, no external resources, a light and a dark theme, and
descriptions for screen readers.

Charts are drawn by matplotlib. The page's content security policy allows only its own style sheet,
so a drawing's styles become attributes, and its colours the page's variables, which differ between
the light and the dark theme.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pearl.lang.errors import InputError
from pearl.lang.text import one_line, printable, shorten
from pearl.report.document import LABEL, Chart, Point, Report, describe
from pearl.report.text import text_chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS = 76
"""The width of a chart that is drawn as text, in characters."""

_MISSING = "Drawn as text, as matplotlib is not installed: Pearl's extra [plots] brings it."

# Placeholders while matplotlib draws, as it knows no CSS variables.
_INK, _DIM, _LINE = "#010101", "#020202", "#030303"
_FILLS = [f"#05050{number}" for number in range(1, 7)]
_PAINT = {
    _INK: "var(--ink)",
    _DIM: "var(--dim)",
    _LINE: "var(--line)",
    **{fill: f"var(--c{number})" for number, fill in enumerate(_FILLS, 1)},
}
_MARKS = "osD^vP*X"
_LOOK: dict[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 10.0,
    "font.family": "DejaVu Sans",
    "axes.axisbelow": True,
    "axes.edgecolor": _LINE,
    "axes.labelcolor": _DIM,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "xtick.color": _LINE,
    "xtick.labelcolor": _DIM,
    "ytick.color": _LINE,
    "ytick.labelcolor": _INK,
    "text.color": _INK,
    "grid.color": _LINE,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "legend.handlelength": 1.2,
}


def render(report: Report) -> str:
    """The report as a page; without matplotlib its charts are drawn as text."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    def drawn(chart: Chart, number: int) -> Markup:
        try:
            return Markup(svg(chart, f"c{number}"))  # noqa: S704 - `_plain` has made it
        except ImportError:
            lines = "\n".join(map(_text, text_chart(chart, _COLUMNS)))
            return Markup("<pre>{}</pre><p class='note'>{}</p>").format(lines, _MISSING)

    def sha256(style: str) -> str:
        return base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters |= {"text": _text, "drawn": drawn, "sha256": sha256}
    page = files("pearl.report").joinpath("page.jinja").read_text("utf-8")
    return environment.from_string(page).render(report=report)


def _text(text: str) -> str:
    # HTML does not allow these two characters either.
    return printable(text).replace("\ufffe", "�").replace("\uffff", "�")


def svg(chart: Chart, name: str) -> str:
    """A chart as an SVG element for a page.

    Args:
        chart: what to draw; the page shows its title.
        name: a prefix of ids that no other chart on the page has.

    Raises:
        ImportError: matplotlib is not installed.
        InputError: it cannot be loaded.
    """
    try:
        import matplotlib
    except ValueError:
        # It looks at the variable as it is loaded, though nothing here is drawn by it.
        raise InputError(
            "matplotlib cannot be loaded: unset MPLBACKEND, or name a backend that it knows."
        ) from None
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    height = 3.6
    if chart.kind == "bars":
        count, rows = len(chart.series), len(chart.labels)
        heights = rows * (count + 0.7) * 0.27 + 0.75 + 0.24 * -(-count // 3)
        height = max(1.3, rows * 0.27 + 0.75 if count == 1 else heights)
    look: Any = {**_LOOK, "svg.hashsalt": name}
    with matplotlib.rc_context(look):
        figure = Figure(figsize=(6.6, height), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        (_bars if chart.kind == "bars" else _points)(axes, chart)
        handles, names = axes.get_legend_handles_labels()
        if len(names) > 1 and chart.kind == "scatter":
            figure.legend(handles, names, loc="outside right upper")
        elif len(names) > 1:
            figure.legend(handles, names, loc="outside upper left", ncols=3)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    return _plain(out.getvalue(), chart, name)


def _bars(axes: Axes, chart: Chart) -> None:
    """Draw horizontal bars, with room for long labels; the first one on top."""
    places = {label: at for at, label in enumerate(chart.labels)}
    count = len(chart.series)
    thick = 0.68 if count == 1 else 0.82 / count
    for at, series in enumerate(chart.series):
        for number, point in enumerate(series.points):
            y = places[point.label] + (at - (count - 1) / 2) * thick
            label = _label(series.name) if count > 1 and not number else None
            axes.barh(y, point.y, thick * 0.92, color=_FILLS[at % len(_FILLS)], label=label)
            _interval(axes, (point.y, y), "xerr", point)
            axes.annotate(
                chart.shown(point.y), (point.y if point.high is None else point.high, y), (4, 0),
                textcoords="offset points", va="center", fontsize=9 if count == 1 else 8,
            )  # fmt: skip
    axes.set_yticks(range(len(places)), [_label(label) for label in places])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(places) - 0.5, -0.5)
    # Room for the values after the bars.
    axes.set_xlim(0, chart.end * 1.12)
    axes.set_xticks([tick for tick in axes.get_xticks() if 0 <= tick <= chart.end * 1.001])
    axes.grid(axis="x")
    axes.set_xlabel(_label(chart.y_label))


def _points(axes: Axes, chart: Chart) -> None:
    """Draw lines, or points that the legend names."""
    is_line = chart.kind == "line"
    for at, (name, points) in enumerate(chart.plots):
        colour, mark = _FILLS[at % len(_FILLS)], _MARKS[at % len(_MARKS)]
        label = _label(name) if len(chart.series) > 1 or not is_line else None
        over, values = [point.x for point in points], [point.y for point in points]
        if is_line:
            axes.plot(over, values, "o-", color=colour, label=label)
        for point in points:
            _interval(axes, (point.x, point.y), "yerr", point, colour if is_line else _DIM)
        if not is_line:
            axes.plot(over, values, mark, color=colour, linestyle="none", label=label)
    axes.grid(axis="y" if is_line else "both")
    axes.set_xlim(0, chart.last * (1.06 if is_line else 1.1) or 1)
    axes.set_ylim(chart.bottom, chart.end)
    axes.set_xlabel(_label(chart.x_label))
    axes.set_ylabel(_label(chart.y_label))


def _interval(
    axes: Axes, place: tuple[float, float], axis: str, point: Point, colour: str = _INK
) -> None:
    if point.low is not None:
        spread: Any = {axis: [[length] for length in point.spread]}
        axes.errorbar(*place, **spread, fmt="none", color=colour, elinewidth=1, capsize=2.5)


def _label(text: str) -> str:
    """A label on one line, without characters that XML does not allow."""
    label = _text(text).strip()
    # matplotlib leaves names that begin with an underscore out of legends.
    return shorten(f"\u200b{label}" if label.startswith("_") else label, LABEL)


def _plain(drawing: str, chart: Chart, name: str) -> str:
    """A drawing without prolog, metadata and styles, and with prefixed ids."""

    def plain_tag(tag: re.Match[str]) -> str:
        text = re.sub(' style="([^"]*)"', lambda style: _attributes(style[1]), tag[0])
        return re.sub(r'( id="|href="#|url\(#)', rf"\1{name}-", text)

    text = drawing[drawing.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style .*?</style>", "", text, flags=re.DOTALL)
    # Only tags are changed: labels, the text between them, may look like attributes.
    head, _, rest = re.sub("<[^<>]+>", plain_tag, text).partition(">")
    head = re.sub(r' (?:width|height)="[^"]*"', "", head)
    label = escape(one_line(_text(f"{chart.title}. {describe(chart)}")))
    return f'{head} role="img" aria-label="{label}">{rest.strip()}'


def _attributes(style: str) -> str:
    """The declarations of a style as attributes, without the typeface, which the page sets."""
    attributes = ""
    for part in style.split(";"):
        key, _, value = map(str.strip, part.partition(":"))
        if key == "font":
            size = re.search(r"([\d.]+px)", value)
            key, value = "font-size", size[1] if size else "10px"
        if key and key != "font-family":
            attributes += f' {key}="{_PAINT.get(value, value)}"'
    return attributes
