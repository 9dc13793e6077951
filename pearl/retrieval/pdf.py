"""The text of a PDF. Lines are joined into paragraphs and rows of tables, across columns and
pages, by the places of their words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pypdfium2 import PdfTextPage

_Cell = tuple[str, float, float]
"""Words without a wide gap between them, and their left and right edge in points."""

_Words = tuple[list[list[_Cell]], float]
"""The words of each cell of a line of a page, and the line's lower edge in points."""

_Line = tuple[list[_Cell], float, float]
"""A line of a page, or a row of a table whose cells have several, and the lower edges of the first
and of the last of them in points. Lines stand in the order in which they are read; ``usual`` is how
far one of a paragraph stands below the one before, in points."""

_HIGHEST = 10
"""The most lines of a table's row; what is higher is a column of the page."""

_WIDEST = 200
"""The most cells of a table's row. A line with more is compared with no other, because the time
for that grows with the square of the number."""

_END = re.compile(r"[.!?…:؟।。！？][\"'”’»)\]」』）]*$")
"""The end of a sentence at a line's end."""


def pdf(data: bytes) -> str:
    """The text of a PDF: a form feed after each page, a blank line between paragraphs."""
    from pypdfium2 import PdfDocument

    with PdfDocument(data) as document:
        lines = [_lines(page.get_textpage()) for page in document]
    drops = sorted(upper[1] - lower[1] for page in lines for upper, lower in pairwise(page))
    drops = [drop for drop in drops if drop > 1]
    # Not the median: in a dialogue most lines are paragraphs, and so stand further apart.
    usual = drops[len(drops) // 5] if drops else 0
    rows = [_rows(_parted(page, usual), usual) for page in lines]
    pages = [_paragraphs(page, usual) for page in rows]
    ends = [
        "\n\f" if _runs_on(page, after, usual) else "\n\n\f"
        for page, after in pairwise((*rows, []))
    ]
    return "".join(map("".join, zip(pages, ends, strict=True))) if any(pages) else ""


def _lines(page: PdfTextPage) -> list[_Words]:
    """The words of a page's lines; a gap that is wider than letters are high begins a new cell."""
    lines: list[_Words] = []
    at = 0
    for line in page.get_text_range().split("\r\n"):
        first = at + len(line) - len(line.lstrip())
        reached: float | None = None
        for word in re.finditer(r"(?:[^ ]| {2,})+", line.strip()):
            last = first + word.end() - 1
            # A word that was hyphenated counts as standing where it ends.
            start = min(first + word.start() + word[0].rfind("\ufffe") + 1, last)
            left, bottom, _, top = page.get_charbox(start, loose=True)
            _, edge, right, _ = page.get_charbox(last, loose=True)
            height, rise = top - bottom, bottom - lines[-1][1] if lines else 0.0
            # What pdfium gives as one line may go on in the next line or column. Words of which
            # the ends are not level are written upwards or downwards.
            if reached is None or (
                abs(edge - bottom) < height / 2
                and (rise > height if left > reached else rise < -height / 2)
            ):
                if not lines or abs(rise) > 1:
                    lines.append(([], bottom))
                lines[-1][0].append([])
            elif left - reached > height:
                lines[-1][0].append([])
            text = word[0].replace("\ufffe", "").replace("\f", " ")
            lines[-1][0][-1].append((text, left, right))
            reached = right
        at += len(line) + 2
    return lines


def _parted(lines: Sequence[_Words], usual: float) -> list[_Line]:
    """The lines of a page, with a cell split where other rows of its table have two cells."""
    parted: list[_Line] = []
    start = 0
    for end, ((above, bottom), (below, lower)) in enumerate(pairwise((*lines, ([], 0.0))), 1):
        if min(len(above), len(below)) < 2 or not 0 < bottom - lower <= 3 * usual:
            fullest = max((cells for cells, _ in lines[start:end]), key=len)
            columns = [_joined(words) for words in fullest if len(fullest) <= _WIDEST]
            # Once more with the columns as wide as their widest cells: the fullest row's may be
            # the narrowest, and aligned to one side only.
            for _ in range(2):
                rows = [
                    [part for words in cells for part in _parts(words, columns)]
                    for cells, _ in lines[start:end]
                ]
                for part in (part for row in rows for part in row):
                    if len(over := _over(part, columns)) == 1:
                        columns[over[0]] = _joined([columns[over[0]], part])
            parted += [
                (row, edge, edge) for row, (_, edge) in zip(rows, lines[start:end], strict=True)
            ]
            start = end
    return parted


def _parts(words: Sequence[_Cell], columns: Sequence[_Cell]) -> list[_Cell]:
    """The words of a cell, split at its table's columns if they are aligned with them."""
    places = [(at, over) for at, word in enumerate(words) if (over := _over(word, columns))]
    cuts = [0, len(words)]
    for (at, before), (end, over) in pairwise(places):
        if before != over:
            # Words between them stand in neither: the widest gap tells where they belong.
            between = range(at + 1, end + 1)
            cuts.insert(-1, max(between, key=lambda n: words[n][1] - words[n - 1][2]))
    parts = [_joined(words[start:stop]) for start, stop in pairwise(cuts)]
    for part in parts:
        place = _over(part, columns)
        if len(place) != 1:
            return [_joined(words)]
        column = columns[place[0]]
        left, right = part[1] - column[1], part[2] - column[2]
        if min(abs(left), abs(right), abs(left + right) / 2) > 1:
            return [_joined(words)]
    return parts


def _rows(lines: Sequence[_Line], usual: float) -> list[_Line]:
    """The lines of a page, with the lines of each row of a table joined into one."""
    rows: list[_Line] = []
    columns: list[_Cell] = []
    at = 0
    while at < len(lines):
        cells, upper, lower = lines[at]
        below = bool(rows) and 0 < rows[-1][2] - upper <= 3 * usual
        if not below or len(_over(cells[0], columns)) > 1:
            columns = []
        end, joined = _row(lines, at, columns, usual)
        if end > at + 1:
            bottoms = [bottom for _, bottom, _ in lines[at:end]]
            cells, upper, lower = joined, max(bottoms), min(bottoms)
        rows.append((cells, upper, lower))
        if _WIDEST >= len(cells) > max(1, len(columns)):
            columns = cells
        at = end
    return rows


def _row(
    lines: Sequence[_Line], at: int, columns: Sequence[_Cell], usual: float
) -> tuple[int, list[_Cell]]:
    """The row that begins with the line ``at`` of a page: where it ends, and its cells, which may
    have several lines.

    Such cells are read one after the other, so that a line of the row stands no lower than the one
    before it, and in a column to the right. Where none does, the row is the line itself.
    ``columns`` are the cells of the fullest row above it in the table, if there is one.
    """
    row: dict[int, list[_Cell]] = {}
    taken: list[_Cell] = []
    end, last, first = at + 1, -1, lines[at][1]
    high = low = first
    for number in range(at, len(lines)):
        cells, bottom, _ = lines[number]
        drop = lines[number - 1][1] - bottom if number > at else 0.0
        overlaps = [_over(cell, columns) for cell in cells]
        places = [each[0] for each in overlaps if len(each) == 1]
        if len(places) < len(cells) or sorted(set(places)) != places:
            break
        if drop <= 1 and places[0] > last and drop > -_HIGHEST * usual:
            high, low = max(high, bottom), min(low, bottom)
            end = number + 1
        elif places != [last] or not 1 < drop <= 1.3 * usual:
            break
        elif end > at + 1 and bottom >= min(low, 2 * first - high) - 1:
            end = number + 1
        for place, cell in zip(places, cells, strict=True):
            row.setdefault(place, []).append(cell)
        last = places[-1]
        if end == number + 1:
            taken = [_joined(parts) for _, parts in sorted(row.items())]
    return end, taken


def _joined(parts: Sequence[_Cell]) -> _Cell:
    texts, lefts, rights = zip(*parts, strict=True)
    return " ".join(texts), min(lefts), max(rights)


def _over(cell: _Cell, columns: Sequence[_Cell]) -> list[int]:
    """The columns above or below a cell."""
    _, begin, end = cell
    return [at for at, (_, left, right) in enumerate(columns) if begin < right and left < end]


def _with_empty_cells(lines: Sequence[_Line], usual: float) -> list[str]:
    """The text of each line: a tab between its cells, and one more for each empty cell.

    Empty cells are found by comparison with the fullest row of the table, if every cell of a row
    stands above or below exactly one of its cells; other rows are left as they are.
    """
    tables: list[list[int]] = [[]]
    for number, (cells, bottom, _) in enumerate(lines):
        rows = tables[-1]
        if rows and lines[number - 1][2] - bottom > 3 * usual:
            rows = []
            tables.append(rows)
        if len(cells) > 1:
            rows.append(number)
        # A line of one cell that begins in the table's first column ends the table.
        elif rows and cells[0][1] < max((lines[row][0] for row in rows), key=len)[0][2]:
            tables.append([])
        elif rows:
            rows.append(number)
    empty = [[0] * len(cells) for cells, _, _ in lines]
    for rows in tables:
        columns = max((lines[number][0] for number in rows), key=len, default=[])
        for number in rows:
            over = [_over(cell, columns) for cell in lines[number][0]]
            places = [-1, *(at for columns_over in over for at in columns_over)]
            before = [after - at - 1 for at, after in pairwise(places)]
            if all(len(columns_over) == 1 for columns_over in over) and min(before) >= 0:
                empty[number] = before
    return [
        "\t".join("\t" * tabs + text for tabs, (text, _, _) in zip(before, cells, strict=True))
        for before, (cells, _, _) in zip(empty, lines, strict=True)
    ]


def _paragraphs(lines: Sequence[_Line], usual: float) -> str:
    """The text of a page's lines: a line that stands apart, or is indented, begins a paragraph."""
    texts = _with_empty_cells(lines, usual)
    text = "".join(texts[:1])
    for number, line in enumerate(texts[1:], 1):
        (above, _, bottom), (cells, below, _) = lines[number - 1 : number + 1]
        drop, start, indent = bottom - below, cells[0][1], above[-1][1]
        if drop < 0:  # Another column.
            apart = not _runs_on(lines[:number], lines[number:], usual)
        else:
            apart = drop > 1.3 * usual or start > indent + usual / 2
        text += ("\n\n" if apart else "\n") + line
    return text


def _runs_on(above: Sequence[_Line], below: Sequence[_Line], usual: float) -> bool:
    """Whether a paragraph goes on from the end of a column or page, whose lines are ``above``, to
    the start of the next, whose lines are ``below``.

    It does if the next column begins in lower case, or if the last line ends no sentence and had
    no room for the next word; a heading mostly has room.
    """
    if not below:
        return False
    (first, begin, end), *others = below[0][0]
    if first[:1].islower():
        return True
    # What begins or ends with a number or a mark is an entry of a list, or ends a sentence.
    if not (above and first[:1].isalpha()) or others or len(above[-1][0]) > 1:
        return False
    # A line by itself that ends no sentence is a heading, or stands at the head of every page.
    last = above[-1][0][0]
    alone = len(below) == 1 or not 0 < below[0][2] - below[1][1] <= 1.3 * usual
    if not last[0].rstrip(",")[-1:].isalpha() or (alone and not _END.search(first)):
        return False
    room = (end - begin) * (len(first.partition(" ")[0]) + 1) / len(first)
    column = [
        cell
        for cells, _, _ in above[:-1]
        for cell in cells
        # A line that reaches into the next column does not show the width of this one.
        if _over(cell, [last]) and not last[2] <= begin < cell[2]
    ]
    if not column:
        return False
    left, right = min(cell[1] for cell in column), max(cell[2] for cell in column)
    # A short line at the right, such as a page number, was not wrapped.
    return last[2] + room > right and last[2] - last[1] > (right - left) / 2
