"""A long text in parts: contiguous, of like size, cut where a reader would pause."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from math import ceil

from pearl.builtins import MOST, label, read_label
from pearl.source import Source, Span

_BREAKS = tuple(
    re.compile(pattern)
    for pattern in (
        r"\n[^\S\n]*\n\s*",  # a blank line
        r"[.!?…。！？:][\"'”’»」』)\]]*[^\S\n]*\n\s*",  # a line that ends a sentence
        r"[.!?…][\"'”’»)\]]*\s+|[。！？][”’」』）]*",  # a sentence
        r"\s+",
    )
)
"""Where a text may be cut, the best places first."""


class LabelError(Exception):
    """A label of a part that does not exist."""


def spans(text: str, number: int, slack: float = 0.15) -> list[Span]:
    """Cut a text into so many parts; together they are the text.

    Args:
        text: any text; one with fewer characters than parts gives empty parts.
        number: how many parts, at least 1.
        slack: how far from its even place a cut may be moved to fall between
            paragraphs, or else sentences, or else words; a share of a part,
            below 0.5.
    """
    size = len(text) / number
    reach = int(size * slack)
    ends = [0]
    for at in range(1, number):
        ends.append(max(ends[-1], _cut(text, round(at * size), reach)))
    return [Span(start, end) for start, end in zip(ends, [*ends[1:], len(text)], strict=True)]


def _cut(text: str, target: int, reach: int) -> int:
    for pattern in _BREAKS:
        places = [found.end() for found in pattern.finditer(text, target - reach, target + reach)]
        if places:
            return min(places, key=lambda place: abs(place - target))
    while target < len(text) and unicodedata.combining(text[target]):
        target += 1
    return target


def enough_parts(text: str, room: int, count: Callable[[str], int]) -> int | None:
    """How many parts of like size it takes for none to be longer than the room.

    Args:
        text: the document.
        room: tokens a part may have.
        count: counts them.

    Returns:
        The least number, or one little more, or None where `MOST` are not enough.
    """
    number, total = 1, count(text)
    while room > 0:
        number = max(number, ceil(total / room))
        if number > MOST:
            break
        largest = max(count(text[start:end]) for start, end in spans(text, number))
        if largest <= room:
            return number
        number += 1 + number // 16
    return None


def part(document: Source, name: str) -> Source:
    """The part of a document that a label names.

    Args:
        document: the whole document.
        name: the label, as ``CTX 2/3``.

    Raises:
        LabelError: there is no such part.
    """
    at, of = read_label(name) or (0, 0)
    if not 1 <= at <= of <= MOST:
        last = min(max(of, 1), MOST)
        raise LabelError(
            f"{name} names no part of the document: parts go from {label(1, last)} to "
            f"{label(last, last)}."
        )
    return _parts(document, of)[at - 1]


# A document's parts open the prompts of many steps: the same text need not be cut for each.
@lru_cache(maxsize=16)
def _parts(document: Source, number: int) -> tuple[Source, ...]:
    return tuple(
        Source(f"{document.name} ({at}/{number})", document.at(span))
        for at, span in enumerate(spans(document.text, number), 1)
    )
