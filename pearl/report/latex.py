"""Reports as LaTeX for a paper: booktabs tables and pgfplots charts, a fragment to ``\\input``."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count

from pearl.lang.text import one_line, printable
from pearl.report.document import Chart, Report, Table, Text, parts

WIDTH = 130
"""The most characters of a row; a wider table's further columns continue below."""

_HEAD = """\
% Needs \\usepackage{booktabs,graphicx,pgfplots} and \\pgfplotsset{compat=1.16}."""
_COLOURS = ("blue!55!black", "orange!75!black", "teal!70!black", "violet!65!black", "gray!80!black")
_MARKS = ("*", "square*", "triangle*", "diamond*", "pentagon*", "o", "square", "triangle")
_ESCAPES = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "%": r"\%", "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''",
    "'": "'", "`": r"\char96{}", "-": "-", "–": "--", "—": "---", "…": r"\dots{}",
    "×": r"$\times$", "−": "$-$", "÷": r"$\div$", "±": r"$\pm$", "≤": r"$\leq$", "≥": r"$\geq$",
    "→": r"$\to$", "α": r"$\alpha$", "κ": r"$\kappa$", "·": r"$\cdot$", "’": "'", "‘": "`",
    "“": "``", "”": "''", "�": "?", "ß": r"\ss{}", "æ": r"\ae{}", "Æ": r"\AE{}", "ø": r"\o{}",
    "Ø": r"\O{}", "œ": r"\oe{}", "Œ": r"\OE{}", "ł": r"\l{}", "Ł": r"\L{}", "§": r"\S{}",
    "\t": " ", "\u00a0": "~",
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
        rows = "\n".join(rf"{_text(name)} & {_text(fact)} \\" for name, fact in report.about)
        parts.append(
            "\\noindent\\begin{tabular}{@{}lp{0.72\\linewidth}@{}}\n" + rows + "\n\\end{tabular}"
        )
    labels: set[str] = set()
    for block in report.blocks:
        if isinstance(block, Text):
            parts += map(_text, block.paragraphs)
            continue
        kind = "tab" if isinstance(block, Table) else "fig"
        stem = f"{kind}:{_slug(report.title)}:{_slug(block.title)}"
        others = (f"{stem}-{number}" for number in count(2))
        label = next(each for each in chain([stem], others) if each not in labels)
        labels.add(label)
        lines = _table(block, label) if isinstance(block, Table) else _chart(block, label)
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _slug(title: str) -> str:
    """A title as a part of a label: without what stands in brackets, such as how many there are."""
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"\(.*?\)", "", title.lower())).strip("-")


def _table(table: Table, label: str) -> Iterator[str]:
    yield "\\begin{table}[htbp]\n\\centering"
    yield rf"\caption{{{_text(table.title)}}}"
    yield rf"\label{{{label}}}"
    widths = [
        max(map(len, (column.title, *(row[at] for row in table.rows))))
        for at, column in enumerate(table.columns)
    ]
    for number, part in enumerate(parts(widths, WIDTH, 2)):
        if number:
            yield r"\par\medskip"
        sides = "".join(table.columns[at].align[0] for at in part)
        # Only a table that is wider than the page is scaled down.
        yield r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
        yield rf"\begin{{tabular}}{{@{{}}{sides}@{{}}}}" + "\n\\toprule"
        yield _row([table.columns[at].title for at in part])
        yield r"\midrule"
        yield from (_row([row[at] for at in part]) for row in table.rows)
        yield "\\bottomrule\n\\end{tabular}}"
    if table.note:
        yield rf"\par\smallskip{{\footnotesize {_text(table.note)}\par}}"
    yield r"\end{table}"


def _row(cells: Sequence[str]) -> str:
    # LaTeX would read a bracket or star at the start of a row as an argument of the last \\.
    shown = [f"{{}}{cell}" if cell.startswith(("[", "*")) else cell for cell in map(_text, cells)]
    return " & ".join(shown) + r" \\"


def _axis(chart: Chart, places: Mapping[str, int]) -> list[str]:
    """The settings of a chart's axes and legend; ``places`` gives each label's place for bars."""
    x_label, y_label, last = _text(chart.x_label), _text(chart.y_label), chart.last * 1.1 or 1
    columns = "legend style={at={(0.5,1.03)}, anchor=south, draw=none}, legend columns=2"
    legend = [columns] if len(chart.series) > 1 else []
    if chart.kind == "bars":
        rows = len(places) * len(chart.series)
        names = ",".join(f"{{{_text(label)}}}" for label in places)
        thick = 9 if len(chart.series) == 1 else 6
        settings = [
            "xbar",
            f"width=0.66\\linewidth, height={1.6 + 0.5 * rows + 0.2 * len(places):.1f}cm",
            f"xlabel={{{y_label}}}, xmin=0, xmax={chart.end:.6g}",
            f"ytick={{{','.join(map(str, places.values()))}}}, yticklabels={{{names}}}",
            f"y dir=reverse, ymin=-0.6, ymax={len(places) - 0.4:.1f}, bar width={thick}pt",
            "xmajorgrids, axis x line*=bottom, axis y line*=left, ytick style={draw=none}",
            "reverse legend",
            *legend,
        ]
    elif chart.kind == "line":
        settings = [
            "width=0.8\\linewidth, height=6cm",
            f"xlabel={{{x_label}}}, ylabel={{{y_label}}}",
            f"xmin=0, ymin={chart.bottom:g}, ymax={chart.end:.6g}",
            "ymajorgrids, axis x line*=bottom, axis y line*=left",
            *legend,
        ]
    else:
        settings = [
            "width=0.66\\linewidth, height=6.5cm",
            f"xlabel={{{x_label}}}, ylabel={{{y_label}}}",
            f"xmin=0, xmax={last:.6g}, ymin={chart.bottom:g}, ymax={chart.end:.6g}",
            "grid=major, axis x line*=bottom, axis y line*=left, scaled x ticks=false",
            "xticklabel style={/pgf/number format/fixed, /pgf/number format/precision=4}",
            "legend style={at={(1.03,1)}, anchor=north west, draw=none, font=\\small}",
        ]
    return [*settings, "tick label style={font=\\small}, legend cell align=left"]


def _chart(chart: Chart, label: str) -> Iterator[str]:
    yield "\\begin{figure}[htbp]\n\\centering\n\\begin{tikzpicture}\n\\begin{axis}["
    places = {label: at for at, label in enumerate(chart.labels)}
    yield from (f"  {setting}," for setting in _axis(chart, places))
    yield "]"
    axis = "x" if chart.kind == "bars" else "y"
    named = chart.kind == "scatter" or len(chart.series) > 1
    numbered = list(enumerate(chart.plots))
    # Series of bars stack upwards, whichever way the axis runs.
    for at, (name, points) in reversed(numbered) if axis == "x" else numbered:
        marks = {
            "bars": "fill, draw=none",
            "line": "mark=*",
            "scatter": f"only marks, mark={_MARKS[at % len(_MARKS)]}",
        }
        colour = _COLOURS[at % len(_COLOURS)]
        yield (
            rf"\addplot[{marks[chart.kind]}, color={colour}, error bars/{axis} dir=both, "
            rf"error bars/{axis} explicit, error bars/error bar style={{black}}] coordinates {{"
        )
        for point in points:
            down, up = (f"{length:.6g}" for length in point.spread)
            spread = f" += (0,{up}) -= (0,{down})"
            place = f"({point.x:.6g},{point.y:.6g})"
            if axis == "x":
                spread = f" += ({up},0) -= ({down},0)"
                place = f"({point.y:.6g},{places[point.label]})"
            yield place if point.low is None else place + spread
        yield "};"
        if named:
            yield rf"\addlegendentry{{{_text(name)}}}"
    yield "\\end{axis}\n\\end{tikzpicture}"
    yield rf"\caption{{{_text(chart.title)}}}"
    yield rf"\label{{{label}}}"
    yield r"\end{figure}"


def _text(text: str) -> str:
    """A text escaped for LaTeX, with only characters that every LaTeX has."""
    return "".join(map(_character, one_line(printable(text))))


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
