"""The sentences of a text."""

from __future__ import annotations

import re
from collections import deque

from pearl.source import Span

_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*|\n(?=[^\S\n]*[-*•]\s)")
_HEADING = re.compile(r"[^\S\n]*[^\n]{0,59}[^\n\s.!?,;:…\"”’)—-][^\S\n]*\n(?=\s*[\"“‘(]?[^\W_])")
_END = re.compile(
    r"[.!?…؟।](?P<close>[\"'”’»)\]]*)\s+(?=[\"'“‘«„(\[]*(?P<next>[^\W_]))|[。！？]+[」』”’）]*"
)
_ABBREVIATED = re.compile(
    r"\b(?:Mr|Mrs|Ms|Mme|Mlle|Dr|St|Prof|Rev|Hon|Capt|Col|Gen|Maj|Sgt|Lt|Gov|Sen|Rep|Jr|Sr|Mt|Ft"
    r"|vs|cf|viz|ca|[A-HJ-Z])$"
)
_NUMBERED = re.compile(r"\b(?:[Nn]os?|pp?|[Ff]igs?|[Vv]ol|[Cc]h)$")
_QUOTED = re.compile(
    r"\"[^\"]*(?:\"|$)|“[^”]*(?:”|$)|«[^»]*(?:»|$)|„[^“”]*(?:[“”]|$)|「[^」]*(?:」|$)"
)
_SPEECH = 400
"""Characters that quotation marks hold together; a longer speech has sentences of its own."""

_LONGEST = 1000
"""Characters of a sentence; what runs on without an end is cut at white space."""


def sentences(text: str) -> list[Span]:
    """Where each sentence stands, without the white space around it.

    What somebody says in quotes stays whole, with its quotes, as long as its
    paragraph lasts and it is no long speech. A heading is a sentence.
    """
    found: list[Span] = []
    start = 0
    for between in (*_PARAGRAPH.finditer(text), None):
        end = between.start() if between else len(text)
        heading = _HEADING.match(text, start, end)
        if heading and text[heading.end() : heading.end() + 2].strip('"“‘( ')[:1].isupper():
            _keep(found, text, start, heading.end())
            start = heading.end()
        _split(found, text, start, end)
        start = between.end() if between else end
    return found


def _split(found: list[Span], text: str, start: int, end: int) -> None:
    """The sentences of one paragraph."""
    speeches = [one.span() for one in _QUOTED.finditer(text, start, end)]
    whole = deque(Span(*one) for one in speeches if one[1] - one[0] <= _SPEECH)
    for stop in _END.finditer(text, start, end):
        if stop["next"] and (stop["next"].islower() or _abbreviated(text, start, stop)):
            continue
        at = stop.end("close") if stop["next"] else stop.end()
        while whole and whole[0].end <= at:
            whole.popleft()
        if not whole or at <= whole[0].start:
            _keep(found, text, start, at)
            start = at
    _keep(found, text, start, end)


def _abbreviated(text: str, start: int, stop: re.Match[str]) -> bool:
    """Whether a full stop only shortens the word before it."""
    at = stop.start()
    if text[at] != ".":
        return False
    word = text[max(start, at - 8) : at]
    numbered = stop["next"].isdigit() and _NUMBERED.search(word)
    return bool(numbered or _ABBREVIATED.search(word))


def _keep(found: list[Span], text: str, start: int, end: int) -> None:
    while end - start > _LONGEST:
        at = max(text.rfind(mark, start + 1, start + _LONGEST) for mark in (" ", "\n", "\t"))
        at = at if at > start else start + _LONGEST
        _keep(found, text, start, at)
        start = at
    body = text[start:end]
    start += len(body) - len(body.lstrip())
    end = start + len(body.strip())
    if end > start:
        found.append(Span(start, end))
