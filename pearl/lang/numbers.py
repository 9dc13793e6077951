"""Numbers as people write them: ``$1,250.50``, ``3 1/2``, ``2.5 million``, ``twenty-one``."""

import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from pearl.lang.text import pattern

_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
).split()

_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_PARTS = {"half": Decimal("0.5"), "quarter": Decimal("0.25"), "third": Decimal(1) / 3}
_UNDER = {"half": 2, "halves": 2, "quarter": 4, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6,
          "seventh": 7, "eighth": 8, "ninth": 9, "tenth": 10}  # fmt: skip
_SCALES = {"dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9,
           "trillion": 10**12}  # fmt: skip
_WORDS = {
    **{word: at for at, word in enumerate(_UNITS)},
    **{word: 10 * at for at, word in enumerate(_TENS, 2)},
}

_SCALE = "|".join(_SCALES)
_WORD = "|".join(sorted(_WORDS, key=len, reverse=True))
_PART = "|".join(_PARTS)
_AND = rf"\s+and\s+an?\s+(?P<{{}}>{_PART})\b"
_VULGAR = pattern(r"\s?([¼-¾⅐-⅞])")
_DIGITS = pattern(
    r"(?P<minus>(?<![\w.)])[-−])?[$€£]?\s?"
    r"(?<![\d./])(?:(?P<whole>\d{1,40})[ -])?(?P<over>\d{1,40})/(?P<under>\d{1,40})(?![\d/])"
    r"|(?P<sign>(?<![\w.)])[-−])?[$€£]?(?<![\w.])"
    r"(?P<digits>(?:\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d{1,40})?|\d{1,40}(?:\.\d{1,40})?|\.\d{1,40})"
    rf"(?:e[+-]?\d{{1,2}}(?!\w))?)(?:{_AND.format('and')})?(?:\s+(?P<scale>{_SCALE})\b)?"
    rf"(?:{_AND.format('half')})?",
    re.IGNORECASE,
)
_SPELLED = pattern(
    # "Three quarters" may be coins, and "two tenth graders" are two.
    rf"\b(?:(?:(?P<whole>{_WORD})\s+and\s+)?(?P<over>(?P<one>one)|{_WORD})"
    rf"(?:-|\s(?!quarter))(?P<under>{'|'.join(_UNDER)})(?:s|(?<=halves)|(?(one)|(?!)))"
    rf"|(?P<number>(?:{_WORD}|an?(?=[ -](?:{_SCALE})))"
    rf"(?:(?:[ -]|\s+and\s+)(?:{_WORD}|{_SCALE}))*)"
    rf"(?:{_AND.format('half')}(?:\s+(?P<scale>{_SCALE}))?)?"
    rf"|(?P<part>{_PART})(?:(?:\s+of)?(?:\s+an?)?\s+(?P<whose>{_SCALE}))?|(?P<alone>{_SCALE}))\b",
    re.IGNORECASE,
)


_GROUPED = pattern(
    r"(?<![\w.,'’])\d{1,3}(?:(?:\.\d{3})+(?!\.?\d)|(?:['’ \u00a0\u2009\u202f]\d{3})+(?!\d))"
    r"(?:,\d{1,2}(?!\d)|(?!,\d))|(?<![\w.,])\d{1,9},\d{1,2}(?![\d,]*\d)"
)
"""Numbers as German, Swiss, French and other writers may set them, in whatever else they may be
read: *3.750,00*, *1.250*, *12'500*, *12 500*, *8,45*."""


class Number(NamedTuple):
    """A number of a text, in the two ways in which it may be meant.

    Args:
        scaled: with the scale behind it: *2 million* is 2000000, *7 dozen* 84.
        written: without it, as where a question asks how many million, or dozen.
        by_dozens: whether the scale is a dozen, which is a unit as much as a number.
    """

    scaled: Decimal
    written: Decimal
    by_dozens: bool = False


def find_last(text: str) -> Number | None:
    """The last number of a text, or None.

    Numbers in words count only where there are none in digits: *one* and
    *half* are often no result. Units, currencies and marks between
    thousands are passed over.
    """
    plainer = _VULGAR.sub(lambda match: f" {unicodedata.normalize('NFKD', match[1])}", text)
    plainer = plainer.replace("\N{FRACTION SLASH}", "/")
    numbers = list(_digits(plainer)) or list(_spelled(plainer))
    return numbers[-1] if numbers else None


def in_digits(text: str) -> str:
    """A text with plain digits for its numbers, as writers of any country may mean them.

    *3.750,00*, *12'500*, *1.2 million* and *twenty-one* become 3750.00, 12500, 1200000 and 21; and
    *1.250* and *12 500*, which may be meant otherwise, 1250 and 12500. Dozens and fractions stay,
    and so does *one*, which is often no number.
    """

    def grouped(match: re.Match[str]) -> str:
        whole, comma, cents = match[0].partition(",")
        return re.sub(r"\D", "", whole) + (f".{cents}" if comma else "")

    def scaled(match: re.Match[str]) -> str:
        if not match["scale"] or match["scale"].lower() == "dozen":
            return match[0]
        return f"{next(_digits(match[0])).scaled.normalize():f}"

    def counted(match: re.Match[str]) -> str:
        if not match["number"] or match["number"].lower() == "one":
            return match[0]
        number = _counted(match)
        return match[0] if number.by_dozens else f"{number.scaled.normalize():f}"

    return _SPELLED.sub(counted, _DIGITS.sub(scaled, _GROUPED.sub(grouped, text)))


def last_number(text: str) -> Decimal | None:
    """The last number of a text, or None, as `find_last` finds it.

    Thousands and millions belong to a number: *2 million dollars* is 2000000.
    Dozens that are counted are its unit: *7 dozen* is 7. *A dozen* and *half a
    dozen* are 12 and 6.
    """
    last = find_last(text)
    if last is None:
        return None
    return last.written if last.by_dozens else last.scaled


def plain(number: Decimal) -> int | float:
    """A number as a step's value: whole ones without a point."""
    return int(number) if number == number.to_integral_value() else float(number)


def _digits(text: str) -> Iterator[Number]:
    for match in _DIGITS.finditer(text):
        sign = -1 if match["minus"] or match["sign"] else 1
        if match["over"] is None:
            written = Decimal(match["digits"].replace(",", "")) + _part(match["and"])
            scale = (match["scale"] or "").lower()
            more = _part(match["half"])
            yield _number(sign * (written + more), sign * (written * _SCALES.get(scale, 1) + more),
                          scale)  # fmt: skip
            continue
        under = Decimal(match["under"])
        if not under:
            # No fraction: two numbers with a stroke between them.
            yield from (_number(value) for value in (Decimal(match["over"]), under))
            continue
        yield _number(sign * (Decimal(match["whole"] or 0) + Decimal(match["over"]) / under))


def _spelled(text: str) -> Iterator[Number]:
    for match in _SPELLED.finditer(text):
        if match["over"]:
            over = Decimal(_WORDS[match["over"].lower()])
            whole = _WORDS[match["whole"].lower()] if match["whole"] else 0
            yield _number(whole + over / _UNDER[match["under"].lower()])
        elif match["part"]:
            scale = _SCALES[match["whose"].lower()] if match["whose"] else 1
            yield _number(_PARTS[match["part"].lower()] * scale)
        elif match["alone"]:
            yield _number(Decimal(_SCALES[match["alone"].lower()]))
        else:
            yield _counted(match)


def _counted(match: re.Match[str]) -> Number:
    words = re.split(r"[\s-]+", match["number"].lower())
    more = _part(match["half"])
    if match["scale"]:
        scale = match["scale"].lower()
        written = _sum(words) + more
        return _number(written, written * _SCALES[scale], scale)
    dozens = len(words) > 1 and words[-1] == "dozen" and words[0] not in ("a", "an")
    written = _sum(words[:-1] if dozens else words) + more
    return _number(written, _sum(words) + more, "dozen" if dozens else "")


def _number(written: Decimal, scaled: Decimal | None = None, scale: str = "") -> Number:
    return Number(written if scaled is None else scaled, written, scale == "dozen")


def _part(word: str | None) -> Decimal:
    return _PARTS[word.lower()] if word else Decimal(0)


def _sum(words: list[str]) -> Decimal:
    total = current = 0
    for word in words:
        if word in _SCALES:
            scale = _SCALES[word]
            current = max(current, 1) * scale
            if scale >= 1000:
                total, current = total + current, 0
        else:
            current += {"a": 1, "an": 1, "and": 0}.get(word, _WORDS.get(word, 0))
    return Decimal(total + current)
