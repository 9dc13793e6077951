"""For a paper: booktabs tables and pgfplots charts, a fragment to ``\\input``."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

from pearl.lang.text import printable
from pearl.report.document import Block, Chart, Point, Report, Table, parts, point_name

WIDTH = 130
"""Characters of a row above which a table's columns go on below."""

_HEAD = """\
% Needs \\usepackage{booktabs,graphicx,pgfplots} and \\pgfplotsset{compat=1.16}."""
_COLOURS = ("blue!55!black", "orange!75!black", "teal!70!black", "violet!65!black", "gray!80!black")
_ESCAPES = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "%": r"\%", "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''",
    "'": "'", "`": r"\char96{}", "-": "-", "–": "--", "—": "---", "…": r"\dots{}",
    "×": r"$\times$", "−": "$-$", "÷": r"$\div$", "±": r"$\pm$", "≤": r"$\leq$", "≥": r"$\geq$",
    "→": r"$\to$", "·": r"$\cdot$", "’": "'", "‘": "`", "“": "``", "”": "''", "�": "?",
    "ß": r"\ss{}", "æ": r"\ae{}", "Æ": r"\AE{}", "ø": r"\o{}", "Ø": r"\O{}", "œ": r"\oe{}",
    "Œ": r"\OE{}", "ł": r"\l{}", "Ł": r"\L{}", "§": r"\S{}", "\t": " ", "\u00a0": "~",
}  # fmt: skip
_ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u",
    "\u0307": ".", "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0327": "c",
    "\u0328": "k",
}  # fmt: skip


def render(report: Report) -> str:
    """The report as LaTeX."""
    parts = [_HEAD, rf"\section*{{{_text(report.title)}}}"]
    if report.about:
        rows = "\n".join(rf"{_text(name)} & {_text(told)} \\" for name, told in report.about)
        parts.append(
            "\\noindent\\begin{tabular}{@{}lp{0.72\\linewidth}@{}}\n" + rows + "\n\\end{tabular}"
        )
    for block in report.blocks:
        parts += _block(block)
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Table):
        yield "\n".join(_table(block))
    elif isinstance(block, Chart):
        yield "\n".join(_chart(block))
    else:
        yield from map(_text, block.paragraphs)


def _table(table: Table) -> Iterator[str]:
    yield "\\begin{table}[htbp]\n\\centering"
    yield rf"\caption{{{_text(table.title)}}}"
    widths = [
        max(map(len, (column.title, *(row[at] for row in table.rows))))
        for at, column in enumerate(table.columns)
    ]
    for number, part in enumerate(parts(widths, WIDTH, 2)):
        if number:
            yield r"\par\medskip"
        yield from _tabular(table, part)
    if table.note:
        yield rf"\par\smallskip{{\footnotesize {_text(table.note)}\par}}"
    yield r"\end{table}"


def _tabular(table: Table, part: Sequence[int]) -> Iterator[str]:
    """Some of a table's columns."""
    sides = "".join(table.columns[at].align[0] for at in part)
    # What is wider than the page is made smaller, and nothing else.
    yield r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
    yield rf"\begin{{tabular}}{{@{{}}{sides}@{{}}}}" + "\n\\toprule"
    yield _row([table.columns[at].title for at in part])
    yield r"\midrule"
    yield from (_row([row[at] for at in part]) for row in table.rows)
    yield "\\bottomrule\n\\end{tabular}}"


def _row(cells: Sequence[str]) -> str:
    # An opening bracket after a line's end would be read as its argument.
    shown = [f"{{}}{cell}" if cell.startswith(("[", "*")) else cell for cell in map(_text, cells)]
    return " & ".join(shown) + r" \\"


def _chart(chart: Chart) -> Iterator[str]:
    drawers = {"bars": _bars, "line": _line, "scatter": _scatter}
    yield "\\begin{figure}[htbp]\n\\centering\n\\begin{tikzpicture}"
    yield from drawers[chart.kind](chart)
    yield "\\end{axis}\n\\end{tikzpicture}"
    yield rf"\caption{{{_text(chart.title)}}}"
    yield r"\end{figure}"


def _bars(chart: Chart) -> Iterator[str]:
    places = {label: at for at, label in enumerate(chart.labels)}
    rows = len(places) * len(chart.series)
    names = ",".join(f"{{{_text(label)}}}" for label in places)
    thick = 9 if len(chart.series) == 1 else 6
    yield from _axis(
        chart,
        "xbar",
        f"width=0.66\\linewidth, height={1.6 + 0.5 * rows + 0.2 * len(places):.1f}cm",
        f"xlabel={{{_text(chart.y_label)}}}, xmin=0, xmax={chart.end:.6g}",
        f"ytick={{{','.join(map(str, places.values()))}}}, yticklabels={{{names}}}",
        f"y dir=reverse, ymin=-0.6, ymax={len(places) - 0.4:.1f}, bar width={thick}pt",
        "xmajorgrids, axis x line*=bottom, axis y line*=left, ytick style={draw=none}",
        "reverse legend",
    )
    # Series stack upwards, whichever way the axis runs.
    for at, one in reversed(list(enumerate(chart.series))):
        yield _plot(at, "fill, draw=none", "x")
        for point in one.points:
            yield f"({point.y:.6g},{places[point.label]}){_spread(point, 'x')}"
        yield "};"
        yield from _entry(chart, one.name)


def _line(chart: Chart) -> Iterator[str]:
    yield from _axis(
        chart,
        "width=0.8\\linewidth, height=6cm",
        f"xlabel={{{_text(chart.x_label)}}}, ylabel={{{_text(chart.y_label)}}}",
        f"xmin=0, ymin={chart.bottom:g}, ymax={chart.end:.6g}",
        "ymajorgrids, axis x line*=bottom, axis y line*=left",
    )
    for at, one in enumerate(chart.series):
        yield _plot(at, "mark=*", "y")
        for point in sorted(one.points, key=lambda point: point.x):
            yield f"({point.x:.6g},{point.y:.6g}){_spread(point, 'y')}"
        yield "};"
        yield from _entry(chart, one.name)


def _scatter(chart: Chart) -> Iterator[str]:
    """Points that the legend names: names beside them would meet."""
    last = max((point.x for one in chart.series for point in one.points), default=0.0)
    yield from _axis(
        chart,
        "width=0.66\\linewidth, height=6.5cm",
        f"xlabel={{{_text(chart.x_label)}}}, ylabel={{{_text(chart.y_label)}}}",
        f"xmin=0, xmax={last * 1.1 or 1:.6g}, ymin={chart.bottom:g}, ymax={chart.end:.6g}",
        "grid=major, axis x line*=bottom, axis y line*=left, scaled x ticks=false",
        "xticklabel style={/pgf/number format/fixed, /pgf/number format/precision=4}",
        "legend style={at={(1.03,1)}, anchor=north west, draw=none, font=\\small}",
        legend=False,
    )
    marks = ("*", "square*", "triangle*", "diamond*", "pentagon*", "o", "square", "triangle")
    labelled = [(series, point) for series in chart.series for point in series.points]
    for at, (series, point) in enumerate(labelled):
        yield _plot(at, f"only marks, mark={marks[at % len(marks)]}", "y")
        yield f"({point.x:.6g},{point.y:.6g}){_spread(point, 'y')}"
        yield "};"
        yield rf"\addlegendentry{{{_text(point_name(series, point))}}}"


def _axis(chart: Chart, *settings: str, legend: bool = True) -> Iterator[str]:
    yield r"\begin{axis}["
    yield from (f"  {setting}," for setting in settings)
    if legend and len(chart.series) > 1:
        yield "  legend style={at={(0.5,1.03)}, anchor=south, draw=none}, legend columns=2,"
    yield "  tick label style={font=\\small}, legend cell align=left,"
    yield "]"


def _plot(at: int, how: str, axis: str) -> str:
    colour = _COLOURS[at % len(_COLOURS)]
    return (
        rf"\addplot[{how}, color={colour}, error bars/{axis} dir=both, "
        rf"error bars/{axis} explicit, error bars/error bar style={{black}}] coordinates {{"
    )


def _spread(point: Point, axis: str) -> str:
    if point.low is None:
        return ""
    down, up = point.spread
    if axis == "x":
        return f" += ({up:.6g},0) -= ({down:.6g},0)"
    return f" += (0,{up:.6g}) -= (0,{down:.6g})"


def _entry(chart: Chart, name: str) -> Iterator[str]:
    if len(chart.series) > 1:
        yield rf"\addlegendentry{{{_text(name)}}}"


def _text(text: str) -> str:
    """Words that stand for themselves, in characters that every LaTeX has."""
    return "".join(map(_character, " ".join(printable(text).split())))


def _character(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isascii():
        return char
    parts = unicodedata.normalize("NFD", char)
    if len(parts) == 2 and parts[0].isascii() and parts[0].isalpha() and parts[1] in _ACCENTS:
        return f"\\{_ACCENTS[parts[1]]}{{{parts[0]}}}"
    if unicodedata.combining(char) or unicodedata.category(char) == "Cf":
        return ""
    # Another script needs fonts that only the paper's author can choose.
    return rf"\texttt{{U+{ord(char):04X}}}"
