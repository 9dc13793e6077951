"""Reports as text, with charts drawn in characters: for a terminal in aligned columns, and as
Markdown with pipe tables, for a README or an issue."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence

from pearl.lang.text import cells, one_line, printable
from pearl.report.document import LABEL, Chart, Point, Report, Table, Text, parts, wide

WIDTH = 100
"""Columns of a screen whose width is not known."""

_GAP = 2
_HEAD = 8
"""Characters of a title that fit on one line even where the cells below it are narrower."""

_CELL = 44
"""The most characters of a cell."""

_EIGHTHS = " ▏▎▍▌▋▊▉"
_BAR = range(10, 45)
"""The lengths, in characters, that the longest bar may have."""

_HIGH = 12
"""The height of a scatter chart, in lines."""

_MARKS = "abcdefghijklmnopqrstuvwxyz"

Style = Callable[[str], str]


def terminal(report: Report, width: int = WIDTH, bold: Style = str, dim: Style = str) -> str:
    """The report for a terminal.

    Args:
        report: what to show.
        width: columns of the screen; a wider table continues below, with its
            first column repeated.
        bold: styles titles.
        dim: styles notes, rules, and the names of facts.
    """
    lines = [*(bold(line) for line in _wrap(report.title, width)), ""]
    margin = max((cells(name) for name, _ in report.about), default=0)
    for name, fact in report.about:
        first, *more = _wrap(fact, width - margin - 2) or [""]
        lines.append(f"{dim(_pad(printable(name), margin))}  {first}")
        lines += (" " * (margin + 2) + line for line in more)
    for block in report.blocks:
        if lines[-1]:
            lines.append("")
        if isinstance(block, Text):
            paragraphs = [["", *_wrap(paragraph, width)] for paragraph in block.paragraphs]
            lines += [line for paragraph in paragraphs for line in paragraph][1:]
            continue
        title = block.title if isinstance(block, Table) else block.heading
        lines += map(bold, _wrap(title, width))
        if isinstance(block, Table):
            lines += [*_table(block, width, dim), *map(dim, _wrap(block.note, width))]
        else:
            lines += text_chart(block, width)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _table(table: Table, width: int, dim: Style) -> Iterator[str]:
    columns = list(zip(*([_fit(cell, _CELL) for cell in row] for row in table.rows), strict=True))
    columns = columns or [()] * len(table.columns)
    heads = []
    for column, texts in zip(table.columns, columns, strict=True):
        # A title is wrapped to the width of the cells below it, or of its longest word.
        widest = max(map(cells, texts), default=0)
        longest = max(map(cells, column.title.split()), default=0)
        room = max(_HEAD, min(_CELL, max(longest, widest)))
        heads.append(_wrap(column.title, room) or [""])
    widths = [max(map(cells, (*head, *texts))) for head, texts in zip(heads, columns, strict=True)]
    gap = next((gap for gap in (_GAP, 1) if wide(widths, gap) <= width), _GAP)

    def line(texts: Sequence[str], part: Sequence[int]) -> str:
        aligned = (
            _pad(texts[at], widths[at], right=table.columns[at].align == "right") for at in part
        )
        return (" " * gap).join(aligned)

    for number, part in enumerate(parts(widths, width, gap)):
        if number:
            yield ""
        high = max(len(heads[at]) for at in part)
        # Titles of fewer lines are moved down to the rule below them.
        titles = [[*[""] * high, *head][-high:] for head in heads]
        yield from (line(texts, part) for texts in zip(*titles, strict=True))
        yield dim("─" * wide([widths[at] for at in part], gap))
        yield from (line(texts, part) for texts in zip(*columns, strict=True))


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(printable(text), max(1, width), break_on_hyphens=False)


def _fit(text: str, width: int) -> str:
    """A text of at most so many columns on the screen, cut with ``…``."""
    text = printable(text).replace("\t", " ")
    if cells(text) <= width:
        return text
    while text and cells(text) > width - 1:
        text = text[:-1]
    return f"{text}…"


def _pad(text: str, width: int, *, right: bool = False) -> str:
    """A text padded to exactly so many columns on the screen."""
    space = " " * (width - cells(text))
    return space + text if right else text + space


def text_chart(chart: Chart, width: int) -> list[str]:
    """A chart as lines of text of at most so many columns."""
    return list((_scatter if chart.kind == "scatter" else _bars)(chart, width))


def _bars(chart: Chart, width: int) -> Iterator[str]:
    """A bar for each point, under the name of its series; a line's points are labelled by x."""

    def label(point: Point) -> str:
        return _fit(f"{point.x:g}" if chart.kind == "line" else point.label, LABEL)

    margin = max((cells(label(point)) for point in chart.points), default=0)
    values = max((len(chart.shown(point.y)) for point in chart.points), default=0)
    spreads = max((len(_interval(chart, point)) for point in chart.points), default=0)
    room = max(_BAR.start, min(_BAR.stop - 1, width - margin - values - spreads - 6))
    for number, series in enumerate(chart.series):
        if len(chart.series) > 1:
            yield from ("",) if number else ()
            yield _fit(series.name, width)
        for point in series.points:
            eighths = round(max(0.0, min(1.0, point.y / chart.end)) * room * 8)
            whole, rest = divmod(eighths, 8)
            bar = _pad("█" * whole + (_EIGHTHS[rest] if rest else ""), room)
            value = f"{chart.shown(point.y):>{values}}  {_interval(chart, point)}"
            yield f"{_pad(label(point), margin)}  {bar}  {value}".rstrip()


def _interval(chart: Chart, point: Point) -> str:
    if point.low is None or point.high is None:
        return ""
    return f"{point.low:,.{chart.digits}f}–{point.high:,.{chart.digits}f}"


def _scatter(chart: Chart, width: int) -> Iterator[str]:
    """Points as letters in a frame, and a legend of the letters."""
    marks = [*_MARKS, *"·" * len(chart.points)]
    last = chart.last * 1.05 or 1.0
    top, bottom = chart.shown(chart.end), chart.shown(chart.bottom)
    margin = max(len(top), len(bottom))
    room = max(_BAR.start, min(60, width - margin - 4))
    grid = [[" "] * room for _ in range(_HIGH)]
    for mark, point in zip(marks, chart.points, strict=False):
        height = (point.y - chart.bottom) / (chart.end - chart.bottom)
        line = grid[_HIGH - 1 - round(min(1.0, max(0.0, height)) * (_HIGH - 1))]
        column = round(min(1.0, max(0.0, point.x / last)) * (room - 1))
        line[column] = mark if line[column] == " " else "*"
    scale = [top, *[""] * (_HIGH - 2), bottom]
    for value, line in zip(scale, grid, strict=True):
        yield f"{value:>{margin}} │{''.join(line)}".rstrip()
    yield f"{'':{margin}} └{'─' * room}"
    end = _number(last)
    label = _fit(chart.x_label, room - len(end) - 3)
    yield f"{'':{margin}}  0{label:^{room - len(end) - 1}}{end}"
    margin = min(LABEL, max((cells(name) for name, _ in chart.plots), default=0))
    for mark, (name, [point]) in zip(marks, chart.plots, strict=False):
        shown = f"{_pad(_fit(name, margin), margin)}  {chart.shown(point.y)}"
        shown = f"{shown}  {_interval(chart, point)}".rstrip()
        yield f"  {mark}  {shown}  at {_number(point.x)}"
    if any("*" in line for line in grid):
        yield "  *  several"


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"


# --- Markdown ---

_CODE = 92
"""The width of a chart in Markdown, in characters, so that a code block need not scroll."""

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$&@])")
_OPENS = re.compile(r"^(\d+)([.)])(?=\s|$)|^([-+=])")


def markdown(report: Report) -> str:
    """The report as Markdown."""
    parts = [f"# {_words(report.title)}"]
    if report.about:
        # A list, as a Markdown table needs a head.
        parts.append(
            "\n".join(f"- **{_words(name)}:** {_words(fact)}" for name, fact in report.about)
        )
    for block in report.blocks:
        if isinstance(block, Table):
            aligned = {"left": ":---", "right": "---:"}
            marks = " | ".join(aligned[column.align] for column in block.columns)
            head = _row([column.title for column in block.columns])
            parts += [
                f"## {_words(block.title)}",
                "\n".join([head, f"| {marks} |", *map(_row, block.rows)]),
                *([_paragraph(block.note)] if block.note else []),
            ]
        elif isinstance(block, Chart):
            lines = "\n".join(text_chart(block, _CODE))
            # The fence must be longer than any run of backticks within.
            fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", lines)), default=0))
            parts += [f"## {_words(block.heading)}", f"{fence}text\n{lines}\n{fence}"]
        else:
            parts += map(_paragraph, block.paragraphs)
    return "\n\n".join(parts) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_words, cells)) + " |"


def _words(text: str) -> str:
    """A text escaped for Markdown, so that nothing in it is markup or a link."""
    shown = one_line(printable(text))
    shown = _SPECIAL.sub(r"\\\1", shown)
    # A bare address would become a link.
    return re.sub(r"(?i)\b(https?|ftp|mailto)(:)|\b(www)(\.)", r"\1\3&#8203;\2\4", shown)


def _paragraph(text: str) -> str:
    """An escaped text for the start of a line, where it must not begin a list or a heading."""
    return _OPENS.sub(
        lambda match: f"\\{match[3]}" if match[3] else f"{match[1]}\\{match[2]}", _words(text)
    )
