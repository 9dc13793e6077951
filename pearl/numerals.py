"""Numbers as people write them: ``$1,250.50``, ``3 1/2``, ``2.5 million``, ``twenty-one``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_PARTS = {"half": Decimal("0.5"), "quarter": Decimal("0.25"), "third": Decimal(1) / 3}
_SCALES = {"dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_WORDS = {
    **{word: at for at, word in enumerate(_UNITS)},
    **{word: 10 * at for at, word in enumerate(_TENS, 2)},
}

_SCALE = "|".join(_SCALES)
_WORD = "|".join(sorted(_WORDS, key=len, reverse=True))
_DIGITS = re.compile(
    r"(?P<minus>(?<![\w.)])[-−])?[$€£]?\s?"
    r"(?<![\d./])(?:(?P<whole>\d{1,40})[ -])?(?P<over>\d{1,40})/(?P<under>\d{1,40})(?![\d/])"
    r"|(?P<sign>(?<![\w.)])[-−])?[$€£]?(?<![\w.])"
    r"(?P<digits>\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d{1,40})?|\d{1,40}(?:\.\d{1,40})?|\.\d{1,40})"
    rf"(?:\s+(?P<scale>{_SCALE})\b)?(?P<half>\s+and\s+a\s+half\b)?",
    re.IGNORECASE,
)
_SPELLED = re.compile(
    rf"\b(?:(?P<number>(?:{_WORD}|an?(?=[ -](?:{_SCALE})))"
    rf"(?:(?:[ -]|\s+and\s+)(?:{_WORD}|{_SCALE}))*)(?P<half>\s+and\s+a\s+half)?"
    rf"|(?P<part>{'|'.join(_PARTS)})|(?P<alone>{_SCALE}))\b",
    re.IGNORECASE,
)


def last_number(text: str) -> Decimal | None:
    """The last number of a text, or None.

    Numbers in words count only where there are none in digits: *one* and
    *half* are often no result. Units, currencies and marks between
    thousands are passed over.
    """
    found = list(_digits(text)) or list(_spelled(text))
    return found[-1] if found else None


def plain(number: Decimal) -> int | float:
    """A number as a step's value: whole ones without a point."""
    return int(number) if number == number.to_integral_value() else float(number)


def _digits(text: str) -> Iterator[Decimal]:
    for found in _DIGITS.finditer(text):
        if found["over"] is None:
            number = Decimal(found["digits"].replace(",", ""))
            if found["scale"]:
                number *= _SCALES[found["scale"].lower()]
            number += Decimal("0.5") if found["half"] else 0
        else:
            under = Decimal(found["under"])
            if not under:
                # No fraction: two numbers with a stroke between them.
                yield from (Decimal(found["over"]), under)
                continue
            number = Decimal(found["whole"] or 0) + Decimal(found["over"]) / under
        yield -number if found["minus"] or found["sign"] else number


def _spelled(text: str) -> Iterator[Decimal]:
    for found in _SPELLED.finditer(text):
        if found["part"]:
            yield _PARTS[found["part"].lower()]
        elif found["alone"]:
            yield Decimal(_SCALES[found["alone"].lower()])
        else:
            yield _sum(found["number"]) + (Decimal("0.5") if found["half"] else 0)


def _sum(words: str) -> Decimal:
    total = current = 0
    for word in re.split(r"[\s-]+", words.lower()):
        if word in _SCALES:
            scale = _SCALES[word]
            current = max(current, 1) * scale
            if scale >= 1000:
                total, current = total + current, 0
        else:
            current += {"a": 1, "an": 1, "and": 0}.get(word, _WORDS.get(word, 0))
    return Decimal(total + current)
