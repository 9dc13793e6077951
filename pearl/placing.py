"""Where the boxes and lines of a plan's picture stand: rows by level, few crossings.

The usual way with layered drawings (Sugiyama, Tagawa and Toda, "Methods for
Visual Understanding of Hierarchical System Structures", 1981): a line that
skips levels gets a narrow seat in each, so that it never runs through a box;
rows are then ordered, sweep by sweep, by the middle of their neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

SEAT = 18.0
"""The width of a line's seat in a row it passes through."""
_SWEEPS = 6


@dataclass(slots=True)
class Seat:
    """A box, or a line on its way through a row.

    Args:
        name: the box's; empty for a line.
        width: what it takes.
        x: its middle.
        above: the seats in the row above that it is joined to.
        below: the seats in the row below.
    """

    name: str
    width: float
    x: float = 0.0
    above: list[Seat] = field(default_factory=list, repr=False)
    below: list[Seat] = field(default_factory=list, repr=False)


def place(
    levels: Mapping[str, int],
    lines: Sequence[tuple[str, str]],
    widths: Mapping[str, float],
    gap: float,
) -> tuple[list[list[Seat]], list[list[Seat]]]:
    """Seats for boxes and lines.

    Args:
        levels: the row of each box.
        lines: from box to box, downwards.
        widths: of each box.
        gap: between neighbours in a row.

    Returns:
        The rows from top to bottom, each from left to right, and for each line
        the seats it runs through, from its first box to its last.
    """
    rows: list[list[Seat]] = [[] for _ in range(max(levels.values(), default=-1) + 1)]
    boxes = {name: Seat(name, widths[name]) for name in levels}
    for name, level in levels.items():
        rows[level].append(boxes[name])
    ways: list[list[Seat]] = []
    for start, end in lines:
        way = [boxes[start]]
        for level in range(levels[start] + 1, levels[end]):
            way.append(Seat("", SEAT))
            rows[level].append(way[-1])
        way.append(boxes[end])
        for upper, lower in pairwise(way):
            upper.below.append(lower)
            lower.above.append(upper)
        ways.append(way)
    for row in rows:
        _spread(row, gap)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            _order(row, gap, down=down)
    left = min((seat.x - seat.width / 2 for row in rows for seat in row), default=0.0)
    for seat in (seat for row in rows for seat in row):
        seat.x -= left
    return rows, ways


def _order(row: list[Seat], gap: float, *, down: bool) -> None:
    """Sort a row by the middle of what its seats are joined to, and seat it there."""
    wished: dict[int, float] = {}
    for seat in row:
        near = seat.above if down else seat.below
        wished[id(seat)] = sum(one.x for one in near) / len(near) if near else seat.x
    row.sort(key=lambda seat: wished[id(seat)])
    for seat in row:
        seat.x = wished[id(seat)]
    _push_apart(row, gap)


def _push_apart(row: list[Seat], gap: float) -> None:
    """Keep neighbours from overlapping, as near to where they wish to be as it goes.

    Seats that would overlap form a block, which stands where its members wish
    on average.
    """
    blocks: list[list[Seat]] = []
    middles: list[float] = []
    for seat in row:
        blocks.append([seat])
        middles.append(seat.x)
        while len(blocks) > 1 and (
            middles[-2] + _width(blocks[-2], gap) / 2 + gap
            > middles[-1] - _width(blocks[-1], gap) / 2
        ):
            later, middle = blocks.pop(), middles.pop()
            sizes = len(blocks[-1]), len(later)
            middles[-1] = (middles[-1] * sizes[0] + middle * sizes[1]) / sum(sizes)
            blocks[-1].extend(later)
    for block, middle in zip(blocks, middles, strict=True):
        x = middle - _width(block, gap) / 2
        for seat in block:
            seat.x = x + seat.width / 2
            x += seat.width + gap


def _spread(row: list[Seat], gap: float) -> None:
    for seat in row:
        seat.x = 0.0
    _push_apart(row, gap)


def _width(block: Sequence[Seat], gap: float) -> float:
    return sum(seat.width for seat in block) + gap * (len(block) - 1)
