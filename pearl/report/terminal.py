"""For a person at a terminal: aligned columns, and bars of characters."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence

from pearl.report.bars import drawn, fit, pad
from pearl.report.document import Block, Chart, Column, Report, Table
from pearl.screen import cells, printable

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
    for number, part in enumerate(_parts(widths, width)):
        if number:
            yield ""
        high = max(len(heads[at]) for at in part)
        for line in range(high):
            # Titles stand on the line below them.
            texts = [(["", *[""] * high, *heads[at]])[-high:][line] for at in part]
            yield _row(texts, part, widths, table.columns)
        yield dim("─" * (sum(widths[at] for at in part) + _GAP * (len(part) - 1)))
        for row in rows:
            yield _row([row[at] for at in part], part, widths, table.columns)


def _row(
    texts: Sequence[str], part: Sequence[int], widths: Sequence[int], columns: Sequence[Column]
) -> str:
    return (" " * _GAP).join(
        pad(text, widths[at], right=columns[at].align == "right")
        for text, at in zip(texts, part, strict=True)
    )


def _title(column: Column, shown: Sequence[str]) -> list[str]:
    """A column's title, in as many lines as keep it no wider than what stands under it."""
    widest = max((cells(cell) for cell in shown), default=0)
    longest = min(_CELL, max((cells(word) for word in column.title.split()), default=0))
    return _wrapped(column.title, max(longest, _HEAD, min(widest, _CELL))) or [""]


def _parts(widths: Sequence[int], width: int) -> list[list[int]]:
    """Which columns stand side by side; the first one stands in every part."""
    parts: list[list[int]] = [[0]]
    taken = widths[0]
    for at in range(1, len(widths)):
        if taken + _GAP + widths[at] > width and len(parts[-1]) > 1:
            parts.append([0])
            taken = widths[0]
        parts[-1].append(at)
        taken += _GAP + widths[at]
    return parts


def _wrapped(text: str, width: int) -> list[str]:
    words = " ".join(printable(text).split(" "))
    return textwrap.wrap(words, max(1, width), break_on_hyphens=False)
