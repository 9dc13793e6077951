"""Cuts a text into contiguous parts of similar size, and finds the part that a label names."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import lru_cache
from itertools import takewhile
from math import ceil

from pearl.lang.ast import DOCUMENT
from pearl.lang.builtins import MOST, label, read_label, read_name
from pearl.lang.source import Source, Span

BETWEEN = re.compile(r"\n[^\S\n]*\n\s*")
SENTENCE = re.compile(r"[.!?…][\"'”’»)\]]*\s+|[。！？][”’」』）]*")
SPACE = re.compile(r"\s+")
"""What stands between paragraphs, sentences and words."""

_BREAKS = (
    BETWEEN,
    re.compile(r"[.!?…。！？:][\"'”’»」』)\]]*[^\S\n]*\n\s*"),  # a line that ends a sentence
    SENTENCE,
    SPACE,
)
"""Where a text may be cut, the best places first."""

_AT_HEADING = re.compile(r"^#{1,6} [^\n]*\n\s*\Z", re.MULTILINE)
"""A heading of Markdown at the end of a text."""


def break_points(text: str, cuts: Iterable[re.Pattern[str]], start: int, end: int) -> list[int]:
    """Where a stretch of a text may be cut: after the matches of the first pattern with any."""
    places = ([match.end() for match in cut.finditer(text, start, end)] for cut in cuts)
    return next(filter(None, places), [])


class LabelError(Exception):
    """A label of a part that does not exist."""


def spans(text: str, number: int, slack: float = 0.15) -> list[Span]:
    """Cut a text into ``number`` parts, which together are the text.

    Args:
        text: any text; one with fewer characters than parts gives empty parts.
        number: how many parts, at least 1.
        slack: how far a cut may be moved to fall between paragraphs, or else
            sentences, or else words, as a share of a part's length, below 0.5.
    """
    size = len(text) / number
    ends = [0]
    for at in range(1, number):
        ends.append(max(ends[-1], _break(text, round(at * size), int(size * slack))))
    return [Span(start, end) for start, end in zip(ends, [*ends[1:], len(text)], strict=True)]


def _break(text: str, target: int, reach: int) -> int:
    if places := break_points(text, _BREAKS, target - reach, target + reach):
        # A heading belongs to what follows it.
        apart = [at for at in places if not _AT_HEADING.search(text, max(0, at - 300), at)]
        return min(apart or places, key=lambda place: abs(place - target))
    # Stream-safe text has at most 30 marks on a character (UAX #15).
    marks = takewhile(unicodedata.combining, text[target : target + 30])
    return target + len(list(marks))


def enough_parts(text: str, room: int, count: Callable[[str], int]) -> int | None:
    """How many parts of similar size it takes for each to fit the room.

    Args:
        text: the document.
        room: the most tokens of a part.
        count: counts the tokens of a text.

    Returns:
        The least number, or little more, or None where `MOST` are not enough.
    """
    number = ceil(count(text) / room) if room > 0 else MOST + 1
    number = max(number, 1)
    while number <= MOST:
        if max(count(text[start:end]) for start, end in spans(text, number)) <= room:
            return number
        number += 1 + number // 16
    return None


def part(document: Source, name: str) -> Source:
    """The part of a document that a label names, as ``CTX 2/3``, or one of several documents, as
    ``CTX.lease.pdf``, whose ending may be left out; a `LabelError` where it names none."""
    if read := read_name(name):
        span = document.named(read)
        if span is None:
            names = [*document.documents]
            # It may lack a folder as well as its ending.
            forms = ((full, f"/{full}", f"/{os.path.splitext(full)[0]}") for full in names)
            near = [full for full, *paths in forms if any(at.endswith(f"/{read}") for at in paths)]
            like = near or get_close_matches(read, names, 1)
            may = " or ".join(f"{DOCUMENT}.{full}" for full in like)
            if len(near) > 1:
                raise LabelError(f"{name} may be {may}: write which.")
            there = ", ".join(names) or f"there is one only, {DOCUMENT}"
            meant = f" Did you mean {may}?" if may else ""
            raise LabelError(f"{name} names none of the documents: {there}.{meant}")
        return Source(read, document.at(span))
    at, of = read_label(name) or (0, 0)
    if not 1 <= at <= of <= MOST:
        last = min(max(of, 1), MOST)
        raise LabelError(
            f"{name} names no part of the document: parts go from {label(1, last)} to "
            f"{label(last, last)}."
        )
    return _parts(document, of)[at - 1]


# Many steps read the same parts.
@lru_cache(maxsize=16)
def _parts(document: Source, number: int) -> tuple[Source, ...]:
    return tuple(
        Source(f"{document.name} ({at}/{number})", document.at(span))
        for at, span in enumerate(spans(document.text, number), 1)
    )
