"""Names, dates and numbers in a text, by their form."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pearl.llm.offline.text import STOP
from pearl.numerals import UNITS
from pearl.source import Span

_TOKEN = re.compile(r"\S+")
_OPENING = "\"'“‘«„(["
_CLOSING = "\"'”’»)],;:.?!"
_JOINING = frozenset(
    "of the de del della di da do dos du la le les el al bin ibn von van der den zu y & - –".split()
)
_SHORT = re.compile(r"(?:[A-Z]\.)+|(?:Mr|Mrs|Ms|Dr|St|Jr|Sr|No|Mt|Vol|Prof|Capt|Lt|Col|Gen)\.")
_MONTHS = (
    "January February March April May June July August September October November December"
).split()
_MONTH = rf"(?:{'|'.join((*_MONTHS, *(one[:3] for one in _MONTHS), 'Sept'))})\.?"
MONTH = re.compile(
    rf"(?:{'|'.join(_MONTHS)}|Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)"
)
"""Names of months and days, which are names of nothing else."""

IMPERSONAL = re.compile(
    r"\b(?:Party|Law|Act|Company|Corporation|Inc|Ltd|University|College|School|League|Awards?|Prize"
    r"|Island|County|River|Lake|Museum|Church|Street|War|Festival|City|States?|Kingdom|Republic|Empire"
    r"|Park|Stadium|Club|Records|Pictures|Studios|Committee|Council|Court|Senate|Parliament|Army|Navy"
    r"|Democratic|Conservative|Olympics?|Championships?|Cup|Series|Show|Magazine|Times|Bridge|Airport)\b"
)
"""Words in names of what is nobody."""

DATE = re.compile(
    rf"\b(?:\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_MONTH},? \d{{3,4}}"
    rf"|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{3,4}}|{_MONTH},? \d{{4}}"
    rf"|\d{{1,2}} {_MONTH}|{_MONTH} \d{{1,2}}\b"
    r"|\d{1,4} BCE?|(?:1\d|20)\d\ds?)\b",
    re.IGNORECASE,
)
NUMBER = re.compile(
    r"(?:[$£€] ?)?\b\d{1,3}(?:,\d{3})+(?:\.\d+)?\b%?"
    r"|(?:[$£€] ?)?\b\d+(?:\.\d+)?\b(?: ?%| percent\b)?"
    r"|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|hundred|once|twice)\b",
    re.IGNORECASE,
)
_UNIT = re.compile(r" (?:thousand|million|billion|trillion|percent)\b", re.IGNORECASE)
_STANDING = re.compile(
    r", (?:\d+(?:st|nd|rd|th) [A-Z][\w'’-]+(?: (?:of )?[A-Z][\w'’-]+)*"
    r"|(?:Duke|Count|Earl|King|Duchess|Countess|Queen|Baron|Baroness|Prince|Princess|Elector|Lord"
    r"|Marquess|Viscount|Emperor) (?:of )?[A-Z][\w'’-]+(?: [A-Z][\w'’-]+)*(?: of [A-Z][\w'’-]+)?"
    r"|(?:Jr|Sr)\.?)"
)
"""What follows a name and belongs to it."""


def is_name(word: str) -> bool:
    """Whether a word stands in capitals, or begins with a digit."""
    bare = word.lstrip(_OPENING)
    return bool(bare) and (bare[0].isupper() or bare[0].isdigit())


def capitals(text: str) -> Iterator[Span]:
    """Where names stand: words in capitals, with the small ones between them.

    A word that only begins a sentence, and is no name elsewhere, is left out.
    """
    start = end = -1
    waiting = 0
    for token in _TOKEN.finditer(text):
        word = token[0]
        at = token.start() + len(word) - len(word.lstrip(_OPENING))
        named = _named(text, token, begins=start < 0)
        if start >= 0 and named and not waiting and word[0] in _OPENING:
            yield Span(start, end)
            start = -1
        if named:
            start = at if start < 0 else start
            bare = word.rstrip(_CLOSING)
            end = token.start() + len(bare.removesuffix("'s").removesuffix("’s"))
            waiting = 0
            if _ends(word, bare):
                yield Span(start, max(end, start + 1))
                start = -1
        elif start >= 0:
            waiting += 1
            if word not in _JOINING or waiting > 2:
                yield Span(start, end)
                start, waiting = -1, 0
    if start >= 0:
        yield Span(start, end)


def _named(text: str, token: re.Match[str], *, begins: bool) -> bool:
    bare = token[0].strip(_OPENING + _CLOSING)
    if not bare or not bare[0].isupper():
        return False
    first = token.start() == 0 or text[: token.start()].rstrip()[-1:] in ".?!"
    plain = bare.lower().replace("’", "'").removesuffix("'s")
    return not (begins and plain in STOP and (first or bare.islower() or len(plain) > 1))


def _ends(word: str, bare: str) -> bool:
    """Whether a name cannot go on behind this word."""
    if _SHORT.fullmatch(word.strip(_OPENING)):
        return False
    return word != bare or bare.endswith(("'s", "’s"))


def whole(text: str, span: Span) -> Span:
    """A name with the rank behind it: *Ada Holt, 3rd Earl of Orm*."""
    rank = _STANDING.match(text, span.end)
    return Span(span.start, rank.end()) if rank else span


def dates(text: str) -> list[Span]:
    """Where dates and years stand."""
    return [Span(*one.span()) for one in DATE.finditer(text)]


def numbers(text: str) -> list[Span]:
    """Where numbers stand, with a unit of thousands behind them."""
    found = []
    for one in NUMBER.finditer(text):
        unit = _UNIT.match(text, one.end())
        found.append(Span(one.start(), unit.end() if unit else one.end()))
    return found


def day(text: str) -> tuple[int, int, int] | None:
    """A date's year, month and day, 0 where it has none; None for no date."""
    found = DATE.search(text)
    if not found:
        return None
    years = re.findall(r"\d{3,4}", found[0]) or re.findall(r"\d+(?= ?BC)", found[0], re.IGNORECASE)
    if not years:
        return None
    told = found[0].lower()
    month = next((at for at, one in enumerate(_MONTHS, 1) if one[:3].lower() in told), 0)
    days = re.findall(r"\b\d{1,2}(?=\b|st|nd|rd|th)", found[0])
    back = -1 if "BC" in found[0].upper() else 1
    return back * int(years[-1]), month, int(days[0]) if days and month else 0


def number(text: str) -> float | None:
    """The first number of a text."""
    found = NUMBER.search(text)
    if not found:
        return None
    digits = re.sub(r"[^\d.]", "", found[0])
    try:
        return float(digits)
    except ValueError:
        word = found[0].lower()
        return float(UNITS.index(word)) if word in UNITS else None
