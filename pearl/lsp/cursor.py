"""What is being written at a place, also in a line that cannot be read yet."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from pearl.source import Span
from pearl.syntax import marks
from pearl.syntax.calls import QUOTES

_PAIRS = {
    "“": "”",
    "„": "”",
    "«": "»",
    "»": "«",
    "「": "」",
    "『": "』",
    "＂": "＂",
    "‘": "’",
    "‚": "’",
}
_HEAD = re.compile(rf"\s*{marks.NAME}\s*(?::=|=(?!=)|←|<-(?!-)|＝)\s*")
_RETURN = re.compile(r"\s*return\b\s*[:：]?\s*(?:\w+\s*,\s*)*\w*$", re.IGNORECASE)
_CALLED = re.compile(r"([^\W\d]\w*)\s*[(（]")
_WORD = re.compile(r"[^\W\d]?\w*$")
_BRACED = re.compile(r"\{\s*(?:(?:each|where)(?:\s+values)?\s+)?(?:[^\W\d]\w*)?$", re.IGNORECASE)
_MODED = re.compile(r"\b(?:each|where)(\s+values)?\s+\w*$", re.IGNORECASE)
_TYPED = re.compile(r"(?:->|→)\s*\w*$")


class Where(Enum):
    """What may stand at a place."""

    NOWHERE = auto()
    ACTION = auto()
    ARGUMENT = auto()
    BRACES = auto()
    RETURN = auto()
    TYPE = auto()


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a line.

    Args:
        where: what may stand there.
        word: the name that has been begun.
        action: the action whose call the place is in.
        moded: a mode stands before the name.
    """

    where: Where
    word: Span
    action: str = ""
    moded: bool = False


def step_cursor(text: str, start: int, at: int) -> Cursor:
    """The place in a line of a plan.

    Args:
        text: the whole text.
        start: where the line's own words start, past number and bullet.
        at: the place.
    """
    line = text[start:at]
    begun = _WORD.search(line)
    word = Span(start + begun.start() if begun else at, at)
    if _RETURN.fullmatch(line):
        return Cursor(Where.RETURN, word)
    head = _HEAD.match(line)
    if not head:
        return Cursor(Where.NOWHERE, word)
    called = _CALLED.match(line, head.end())
    if not called:
        free = line[head.end() :] == line[word.start - start :]
        return Cursor(Where.ACTION if free else Where.NOWHERE, word)
    where = _inside(line, called.end())
    moded = bool(_MODED.search(line))
    return Cursor(where, word, called[1], moded)


def arguments_cursor(text: str, start: int, at: int) -> Cursor:
    """The place in a list of arguments that starts with its parenthesis."""
    line = text[start:at]
    begun = _WORD.search(line)
    word = Span(start + begun.start() if begun else at, at)
    opening = line.find("(")
    where = _inside(line, opening + 1) if opening >= 0 else Where.NOWHERE
    return Cursor(where, word, "", bool(_MODED.search(line)))


def action_cursor(text: str, start: int, at: int) -> Cursor:
    """The place in a line that declares an action."""
    line = text[start:at]
    begun = _WORD.search(line)
    word = Span(start + begun.start() if begun else at, at)
    opening, close = line.find("("), line.rfind(")")
    of_param = opening >= 0 and close < 0 and re.search(r"\w\s*:\s*\w*$", line)
    return Cursor(Where.TYPE if of_param or _TYPED.search(line) else Where.NOWHERE, word)


def _inside(line: str, opened: int) -> Where:
    """What may stand at a line's end, which is somewhere behind a call's parenthesis."""
    depth, quote, at = 1, "", opened
    text_from = opened
    while at < len(line):
        char = line[at]
        if quote:
            if char == "\\":
                at += 1
            elif char == quote:
                quote = ""
        elif _opens_text(line, at):
            quote, text_from = _PAIRS.get(char, char), at
        elif char in "(（[【":
            depth += 1
        elif char in ")）]】":
            depth -= 1
            if depth == 0:
                return Where.NOWHERE
        at += 1
    if quote:
        return Where.BRACES if _BRACED.search(line, text_from) else Where.NOWHERE
    return Where.ARGUMENT if re.search(r"[(（\[【,，{\s]\w*$", line) else Where.NOWHERE


def _opens_text(line: str, at: int) -> bool:
    # An apostrophe inside a word opens nothing.
    return line[at] in QUOTES and not (line[at] == "'" and line[at - 1 : at].isalnum())
