"""Whether work grows as the text it is done on does."""

from __future__ import annotations

import time
from collections.abc import Callable

TIMES = 16
"""How much larger the second text is."""


def assert_linear(work: Callable[[str], object], text: Callable[[int], str], size: int) -> None:
    """Do work on a text and on one 16 times as large; quadratic work takes 256 times as long.

    Args:
        work: what is done.
        text: makes a text of so many pieces.
        size: of the smaller text; work on it should take some milliseconds.
    """
    # Work that is too short to measure would be told by the clock's own steps.
    large, most = _seconds(work, text(size * TIMES)), 5 * TIMES * 0.002
    if large >= most:
        small = min(_seconds(work, text(size)) for _ in range(2))
        large, most = min(large, _seconds(work, text(size * TIMES))), max(most, 5 * TIMES * small)
        assert large < most, f"{small:.4f} s and {large:.4f} s"


def _seconds(work: Callable[[str], object], text: str) -> float:
    started = time.process_time()
    work(text)
    return time.process_time() - started
