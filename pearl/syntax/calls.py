"""Where a call ends: parentheses counted, quoted texts skipped."""

from __future__ import annotations

import re

from pearl.syntax.parsers import string_pattern

QUOTES = "\"'“”„«»‹「『＂‘‚"
"""The characters that may open a quoted text."""

_OPEN, _CLOSE = "(（[【{", ")）]】}"
_MARKS = re.compile(rf"[{re.escape(_OPEN + _CLOSE + QUOTES)}]|\\\"")
_OPENING = re.compile(r"[(（\[【{]")
_UNDONE = re.compile(r"[^(]*(?:=|←|<-|＝)\s*(?:[^\W\d](?:\w|\\_)*)?\s*\\?\s*")


def closed(text: str, start: int, end: int) -> bool:
    """Whether the call that starts in the range is complete.

    A line that ends in ``=``, in an action's name or in the middle of a call
    is not.
    """
    opening = _OPENING.search(text, start, end)
    if not opening:
        return not _UNDONE.fullmatch(text, start, end)
    return call_end(text, opening.start(), end) >= 0


def call_end(text: str, opening: int, end: int) -> int:
    """The place after a call's last parenthesis, or -1 where it is not closed.

    Args:
        opening: the place of the call's first parenthesis.
        end: where to stop looking.
    """
    strings = string_pattern()
    depth, at = 0, opening
    while mark := _MARKS.search(text, at, end):
        char, at = mark[0], mark.end()
        if char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth -= 1
            if depth <= 0:
                return at
        else:
            quoted = strings.match(text, mark.start(), end)
            if not quoted:
                return -1
            at = quoted.end()
    return -1
