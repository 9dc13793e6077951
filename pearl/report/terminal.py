"""For a person at a terminal: aligned columns, and bars of characters."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence

from pearl.lang.text import cells, printable
from pearl.report.document import Block, Chart, Column, Report, Table, parts, wide
from pearl.report.plots import drawn, fit, pad

WIDTH = 100
"""Columns where nobody says how many there are."""

_GAP = 2
_HEAD = 8
"""Columns that a column's title may take before it goes on in the next line."""

_CELL = 44
"""Columns that a cell may take."""

Style = Callable[[str], str]


def _plain(text: str) -> str:
    return text


def render(report: Report, width: int = WIDTH, bold: Style = _plain, dim: Style = _plain) -> str:
    """The report as text.

    Args:
        report: what to show.
        width: columns of the screen; a table that is wider goes on below, with
            its first column again.
        bold: marks titles.
        dim: marks what stands under a table.
    """
    lines = [*(bold(line) for line in _wrapped(report.title, width)), ""]
    margin = max((cells(name) for name, _ in report.about), default=0)
    for name, told in report.about:
        first, *more = _wrapped(told, width - margin - 2) or [""]
        lines.append(f"{dim(pad(printable(name), margin))}  {first}")
        lines += (" " * (margin + 2) + line for line in more)
    for block in report.blocks:
        if lines[-1]:
            lines.append("")
        lines += _block(block, width, bold, dim)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _block(block: Block, width: int, bold: Style, dim: Style) -> Iterator[str]:
    if isinstance(block, Table):
        yield from (bold(line) for line in _wrapped(block.title, width))
        yield from _table(block, width, dim)
        yield from (dim(line) for line in _wrapped(block.note, width))
    elif isinstance(block, Chart):
        yield from (bold(line) for line in _wrapped(_titled(block), width))
        yield from drawn(block, width)
    else:
        for at, paragraph in enumerate(block.paragraphs):
            yield from ("",) if at else ()
            yield from _wrapped(paragraph, width)


def _titled(chart: Chart) -> str:
    over = f" by {chart.x_label}" if chart.kind == "line" else ""
    return f"{chart.title} ({chart.y_label}{over})"


def _table(table: Table, width: int, dim: Style) -> Iterator[str]:
    rows = [[fit(cell, _CELL) for cell in row] for row in table.rows]
    heads = [_title(column, [row[at] for row in rows]) for at, column in enumerate(table.columns)]
    widths = [
        max(cells(text) for text in (*heads[at], *(row[at] for row in rows)))
        for at in range(len(table.columns))
    ]
    gap = next((gap for gap in (_GAP, 1) if wide(widths, gap) <= width), _GAP)
    for number, part in enumerate(parts(widths, width, gap)):
        if number:
            yield ""
        high = max(len(heads[at]) for at in part)
        # Titles stand on the line below them.
        titles = [[*[""] * high, *head][-high:] for head in heads]
        yield from (
            _row([title[line] for title in titles], part, widths, table.columns, gap)
            for line in range(high)
        )
        yield dim("─" * wide([widths[at] for at in part], gap))
        yield from (_row(row, part, widths, table.columns, gap) for row in rows)


def _row(
    texts: Sequence[str],
    part: Sequence[int],
    widths: Sequence[int],
    columns: Sequence[Column],
    gap: int,
) -> str:
    """Some of a row's texts, each under its column."""
    return (" " * gap).join(
        pad(texts[at], widths[at], right=columns[at].align == "right") for at in part
    )


def _title(column: Column, shown: Sequence[str]) -> list[str]:
    """A column's title, in as many lines as keep it no wider than what stands under it."""
    widest = max((cells(cell) for cell in shown), default=0)
    longest = min(_CELL, max((cells(word) for word in column.title.split()), default=0))
    return _wrapped(column.title, max(longest, _HEAD, min(widest, _CELL))) or [""]


def _wrapped(text: str, width: int) -> list[str]:
    words = " ".join(printable(text).split(" "))
    return textwrap.wrap(words, max(1, width), break_on_hyphens=False)
