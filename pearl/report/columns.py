"""Which columns of a wide table stand side by side, and which go on below."""

from __future__ import annotations

from collections.abc import Sequence


def wide(widths: Sequence[int], gap: int) -> int:
    """The width of columns with gaps between them."""
    return sum(widths) + gap * (len(widths) - 1)


def parts(widths: Sequence[int], width: int, gap: int) -> list[list[int]]:
    """Columns in as few parts as fit, about as wide as each other.

    Args:
        widths: of the columns.
        width: what a part may take.
        gap: between two columns.

    Returns:
        The columns of each part, by number; the first column is in every part.
    """
    fewest = len(_split(widths, width, gap))
    limits = range(max(widths[0] + gap, 20), width)
    return next(
        (found for limit in limits if len(found := _split(widths, limit, gap)) == fewest),
        _split(widths, width, gap),
    )


def _split(widths: Sequence[int], width: int, gap: int) -> list[list[int]]:
    """Columns from left to right, in parts that fit; the first column stands in every part."""
    found: list[list[int]] = [[0]]
    for at in range(1, len(widths)):
        if len(found[-1]) > 1 and wide([widths[one] for one in (*found[-1], at)], gap) > width:
            found.append([0])
        found[-1].append(at)
    return found
