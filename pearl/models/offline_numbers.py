"""The number that a sentence says outright, for the offline reader.

What no pattern reads as a whole is not read in part: of *two thirds*, *12-15*, *fewer than 30* or
*3 Millionen* nothing is taken, nor anything of a sentence that says several numbers of what is
asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from pearl.lang.numbers import NUMBER_WORDS, SCALES, UNITS, find_last, plain
from pearl.models.base import ModelError
from pearl.retrieval.terms import CLAUSE, CLAUSE_NAME, MONTH, words

NO_NUMBER = (
    "No sentence says this number outright, and the offline reader does not count: use a language "
    "model, or an action that gives text."
)

UNCLEAR = (
    '"{}" can be read in more than one way, and the offline reader does not guess: use a language '
    "model, or an action that gives text."
)

_DIGITS = re.compile(
    r"(?<!\d[.,])\b(?:"
    r"(?P<foreign>\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,}|\d+,\d{1,2}"
    r"|\d{1,3}(?:[ '’]\d{3})+(?:[.,]\d+)?(?!-))"
    r"|(?P<unclear>[1-9]\d{0,2}\.\d{3}|\d+\.\d+[.,]\d+(?:[.,]\d+)*)"
    r")(?![.,]?\d)\b"
    r"|\b(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?\b"
)
"""Numbers, with the marks between thousands and before decimals that several languages use.

``unclear`` is one that says different things in two of them, as *1.250* does, or a date.
A plain space groups thousands but where it may part two numbers: behind a month's name it does, as
in *May 12 300 ships*; behind another word in capitals (*Room 12 300 guests*) it is unclear.
"""

_SCALE = "|".join(word for word in SCALES if word != "dozen")
_FOREIGN = (
    "dozens?|tausend|millionen|mio|milliarden?|mrd|millions|milliards?|mille|mil|miles|millón"
    "|millones|milione|milioni|miliardo|miliardi|mila"
)
_ENGLISH = "|".join(sorted(NUMBER_WORDS, key=len, reverse=True))
_DIGIT, _TEENS = "|".join(UNITS[1:10]), "|".join(UNITS[10:])
_TENS = "|".join(word for word, value in NUMBER_WORDS.items() if value >= 20)
_SMALL = rf"(?:(?:{_TENS})(?:[ -](?:{_DIGIT}))?|{_TEENS}|{_DIGIT})"
_GROUP = rf"(?:(?:an?|{_SMALL})[ -]hundred(?:[ -](?:and )?{_SMALL})?|an?(?=[ -])|{_SMALL})"
_WHOLE = re.compile(
    rf"{_GROUP}(?:[ -](?:{_SCALE})(?:,?[ -](?:and )?{_GROUP})?)*|\d+(?:\.\d{{1,2}})? (?:{_SCALE})",
    re.IGNORECASE,
)
"""What is one number: in English words, or in digits with a scale."""

_PIECE = (
    rf"(?:\d+(?:[.,'’]\d+)*|(?:{_ENGLISH}|{_SCALE}|{_FOREIGN}|an?(?=[ -](?:{_SCALE})\b)"
    r"|hal(?:f|ves)|(?:third|quarter|fourth|fifth|sixth|seventh|eighth|ninth|tenth)s)\b)"
)
_RUN = re.compile(
    rf"(?<![\w.,])(?:{_ENGLISH}|\d+(?:[.,'’]\d+)*|an?(?=[ -](?:{_SCALE})\b))"
    rf"(?:(?:,? (?:and |to |or |und |bis |oder |et |à |ou |y |a |o |e )?|\s?[-–—/]\s?){_PIECE})*"
    r"(?![\w])",
    re.IGNORECASE,
)
"""Number upon number, as far as they may belong together."""

_APART = re.compile(rf"(\d+) (?=(?:{_ENGLISH})\b)", re.IGNORECASE)
"""A year, say, before a number in words: *in 1904 forty ships*."""

_AGAIN = re.compile(rf"\b({_ENGLISH}|{_SCALE})\s?\(\d[\d.,'’ ]*\)", re.IGNORECASE)
"""A number in words that digits say again: *thirty-six (36)*."""

_BOUND = re.compile(
    r"\b(?:(?:fewer|less|more|greater|larger|higher|lower|longer|shorter) than|at (?:least|most)"
    r"|up to|under|over|below|above|between"
    r"|mindestens|höchstens|bis zu|(?:weniger|mehr) als|unter|über|maximal|zwischen"
    r"|(?:moins|plus) de|au (?:moins|plus)|jusqu['’]à|entre"
    r"|(?:menos|más) de|(?:al|por lo) menos|como (?:máximo|mínimo)|hasta"
    r"|(?:meno|più) di|almeno|fino a|al (?:massimo|minimo)|tra|fra)"
    r"\s(?:[A-Z]{3}\s)?[$€£]?\s?$",
    re.IGNORECASE,
)
"""What makes a number the end of a range."""

_PART_OF = re.compile(
    r"\b(?:of|von|de|des|di) (?:the|these|those|its|their|den|les|los|las|i|gli|le) $", re.I
)
"""What stands before all there are, of which some are told: *four of the eleven beams*."""

_DAY = re.compile(
    rf"\b{MONTH.pattern} \d{{1,2}}(?= \d{{3}}\b)|\b\d{{1,2}}(?:\.|er)? (?=(?:de )?{MONTH.pattern})"
    r"|\b\d{1,2}:\d{2}(?::\d{2})?\b"
)
"""The day of a date, and the time of a clock, which count nothing."""

_AND = re.compile(r"\b(?:and|or|but|und|oder|aber|et|ou|mais|y|o|pero|e|ma)\b|,", re.IGNORECASE)
_YEAR = re.compile(r"\b(?:in|by|since|from|until|of|im|seit|bis|en|nel|dal) (?:1\d|20)\d\d$")
"""A year at the end of a text."""

HOW_MANY = re.compile(
    r"\b(?:how many|number of|count|wie ?viele|anzahl|combien de|nombre de|cuánt[oa]s|número de"
    r"|quant[ie]|numero di)\b",
    re.IGNORECASE,
)
"""What asks for a count."""

_TABLE = re.compile(r"\t|\|.*\|")
"""What a table's rows have, whose numbers no words beside them tell apart."""

_LABEL = re.compile(
    rf"^(?:{CLAUSE}|\d{{1,3}}[^\S\n]+(?=[^\W\da-z_]))"
    rf"|(?<!\w)(?:{CLAUSE_NAME}|(?i:figure|page|paragraph|table)s?)\s?\d[\d.]*"
)
"""Numbers that name a place in the document, and count nothing."""


class _Said(NamedTuple):
    """A number of a sentence.

    Args:
        value: in digits, with a point before decimals; as it is written where that is unclear;
            None where it is not read.
        before: the text before it.
        after: the text behind it.
    """

    value: str | None
    before: str
    after: str


def stated_number(quotes: Sequence[str], stated: set[str], note: set[str], *, counted: bool) -> str:
    """The number that counts something a step asks for, or else the only one of a sentence.

    The sentence has every word of the step's arguments.

    Args:
        quotes: sentences.
        stated: the words of the arguments, as `words` gives them.
        note: those of the step's note.
        counted: whether things are to be counted, so that no other number is meant.

    Raises:
        ModelError: there is none, or it can be read in two ways; any other number would be about
            something else.
    """
    wanted = stated | note
    only = ""
    for quote in sorted(quotes, key=lambda quote: -len(wanted.intersection(words(quote)))):
        if _TABLE.search(quote) or not stated.issubset(words(quote)):
            continue
        said = [number for number in _said(quote) if number.value not in stated]
        counting = {number.value for number in said if _counts(number, wanted)}
        if len(counting) == 1 and _shares_noun(said):
            break
        if len(counting) == 1:
            return _clear(counting.pop())
        if counting:
            break
        if len(said) == 1 and stated and not counted:
            only = only or said[0].value or ""
    return _clear(only)


def _counts(number: _Said, wanted: set[str]) -> bool:
    """Whether a number counts what is asked for: "in 1904 the ships" is no such year."""
    after = number.after.split(maxsplit=2)[:2]
    counts = after and words(after[0]) and not _RUN.match(after[0])
    part = _PART_OF.search(number.before)
    return bool(counts and not part and wanted.intersection(words(" ".join(after))))


def _shares_noun(said: Sequence[_Said]) -> bool:
    """Whether a number after another is told without a noun, as in *forty ships in May and six in
    June*: what each counts, only a reader knows."""
    return any(
        _AND.search(number.before[len(earlier.before) :]) and not _noun(number)
        for earlier, number in pairwise(said)
        if _noun(earlier) and not _YEAR.search(number.before + (number.value or ""))
    )


def _noun(number: _Said) -> bool:
    """Whether a content word stands behind a number."""
    return bool(words(" ".join(number.after.split(maxsplit=1)[:1])))


def _said(quote: str) -> Iterator[_Said]:
    """The numbers of a sentence, but for those that count nothing."""
    text = _AGAIN.sub(r"\1", _DAY.sub(",", _LABEL.sub("", quote)))
    # What stands apart is read apart.
    text = _APART.sub("\\1\n", text)
    for match in _RUN.finditer(text):
        before, after = text[: match.start()], text[match.end() :]
        run = match[0].lower()
        # "One" stands for anybody and anything.
        if run not in ("one", "zero"):
            value = _value(match, text)
            bounded = _BOUND.search(before)
            negative = re.search(r"(?:^|[\s(])[-−–]$", before)
            if value and negative:
                value = f"-{value}"
            yield _Said(None if bounded else value, before, after)


def _value(match: re.Match[str], text: str) -> str | None:
    """The number that a run is, if it is one."""
    digits = _DIGITS.match(text, match.start())
    if digits and digits.end() == match.end():
        return _pointed(digits)
    number = find_last(match[0]) if _WHOLE.fullmatch(match[0]) else None
    return str(plain(number.scaled)) if number else None


def _pointed(match: re.Match[str]) -> str:
    """A number with a point before its decimals; as it is written, where that is unclear."""
    if not match["foreign"]:
        return match[0]
    *_, before = ["", *match.string[: match.start()].split()]
    if match[0].count(" ") == 1 and before[:1].isupper() and words(before):
        return match[0]
    number = re.sub("[ '’]", "", match[0])
    pointed = "," in number or number.count(".") > 1
    return number.replace(".", "").replace(",", ".") if pointed else number


def _clear(number: str | None) -> str:
    """The number, where there is one and it can be read in one way only; else a `ModelError`."""
    if not number:
        raise ModelError("refusal", NO_NUMBER)
    if (match := _DIGITS.fullmatch(number)) and (match["unclear"] or " " in number):
        raise ModelError("refusal", UNCLEAR.format(number))
    return number
