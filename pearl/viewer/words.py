"""Numbers and texts of a run, as a reader sees them."""

from __future__ import annotations

import time

from pearl.llm.prices import dollars
from pearl.report.figures import NONE, number
from pearl.screen import printable, printable_lines

_NO_CHARACTERS = str.maketrans({"\ufffe": "�", "\uffff": "�"})


def shown(text: object) -> str:
    """One line of text that somebody else wrote: no character in it steers or hides anything.

    What is left of it is still to be escaped.
    """
    return printable(str(text)).translate(_NO_CHARACTERS)


def lines(text: object) -> str:
    """The same for a text of several lines."""
    return printable_lines(str(text)).translate(_NO_CHARACTERS)


def took(seconds: float | None) -> str:
    """``0.42 s``, ``12.3 s``, ``3 min 20 s``: a time that something took."""
    if seconds is None:
        return NONE
    if seconds >= 120:
        minutes, rest = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours:,} h {minutes} min" if hours else f"{minutes} min {rest} s"
    return f"{seconds:.{2 if seconds < 10 else 1}f} s"


def money(millionths: int | None) -> str:
    """An amount in millionths of a dollar; a dash where no price is known."""
    return NONE if millionths is None else dollars(millionths)


def moment(seconds: float | None) -> str:
    """``2026-11-21 10:15:00 UTC``, of seconds since 1970."""
    if seconds is None:
        return NONE
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def count(value: float | None) -> str:
    """``1,000``."""
    return number(value)


def counted(value: int, noun: str) -> str:
    """``1 call``, ``1,000 calls``."""
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def short(text: str, length: int) -> str:
    """A text's beginning on one line."""
    plain = " ".join(text.split())
    return plain if len(plain) <= length else f"{plain[:length].rstrip()} …"
