"""Numbers and texts of a run, as a reader sees them.

A plan's text in parts, each with what it is, so that a page can colour it and mark findings.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from pearl.lang.ast import DOCUMENT
from pearl.lang.diagnostics import Diagnostic
from pearl.lang.source import Source
from pearl.lang.text import printable, printable_lines
from pearl.models.prices import dollars
from pearl.report.document import NONE, number

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


_STEP = re.compile(r"\s*(?P<number>\d+[.)])?\s*(?P<name>\w+)\s*=\s*(?P<action>\w+)\s*\(")
_DECLARED = re.compile(r"\s*-\s*(?P<action>\w+)\s*\(")
_HEAD = re.compile(r"(?P<key>question:|New actions:)(?P<note>.*)", re.IGNORECASE)
_RETURN = re.compile(r"(?P<key>return)\s+(?P<ref>.+)")
_TOKEN = re.compile(
    r'(?P<text>"(?:\\.|[^"\\])*"?)|(?P<lit>-?\b\d[\d.]*\b|\b(?:true|false)\b)'
    r"|(?P<key>\b(?:each|where|values)\b)|(?P<ref>\b[^\W\d]\w*\b)|(?P<other>.)",
    re.DOTALL,
)
_BRACES = re.compile(r"(?<!\\)\{\s*(?:(?:each|where)\s+(?:values\s+)?)?(\w+)\s*\}")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a plan.

    Args:
        number: counted from 1.
        parts: its text in order, each with the names of its classes.
        findings: those whose place begins on it.
    """

    number: int
    parts: tuple[tuple[str, str], ...]
    findings: tuple[Diagnostic, ...] = ()


def coloured(source: Source, findings: Sequence[Diagnostic] = ()) -> list[Line]:
    """A plan's lines.

    Args:
        source: its text, in canonical form or as a model wrote it.
        findings: what the checker says of it, with places in this text.
    """
    found: list[Line] = []
    start = 0
    for at_line, text in enumerate(source.text.split("\n"), 1):
        marks = [""] * len(text)
        here: list[Diagnostic] = []
        for one in findings:
            begin, end = one.span.start - start, one.span.end - start
            if 0 <= begin <= len(text):
                here.append(one)
            for at in range(max(begin, 0), min(max(end, begin + 1), len(text))):
                marks[at] = str(one.severity)
        found.append(Line(at_line, tuple(_parts(text, marks)), tuple(here)))
        start += len(text) + 1
    while len(found) > 1 and not found[-1].parts and not found[-1].findings:
        found.pop()
    return found


def _parts(text: str, marks: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Characters of the same classes, together."""
    kinds = [""] * len(text)
    for start, end, kind in _kinds(text):
        kinds[start:end] = [kind] * (end - start)
    both = [f"{kind} {mark}".strip() for kind, mark in zip(kinds, marks, strict=True)]
    for classes, some in groupby(range(len(text)), key=both.__getitem__):
        places = list(some)
        yield classes, shown(text[places[0] : places[-1] + 1].replace("\r", ""))


def _kinds(text: str) -> Iterable[tuple[int, int, str]]:
    if text.lstrip().startswith("#"):
        return [(0, len(text), "remark")]
    if found := _STEP.match(text):
        named = ("number", "name", "action")
        return [(*found.span(one), one) for one in named if found[one]] + _call(text, found.end())
    if found := _DECLARED.match(text):
        return [(*found.span("action"), "action"), *_call(text, found.end())]
    if found := _HEAD.match(text) or _RETURN.match(text):
        return [(*found.span(kind), kind) for kind in found.groupdict()]
    return []


def _call(text: str, start: int) -> list[tuple[int, int, str]]:
    """The parts of a call's arguments, and the note behind them."""
    found: list[tuple[int, int, str]] = []
    depth = 1
    for token in _TOKEN.finditer(text, start):
        kind = str(token.lastgroup)
        if kind == "other":
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token[0], 0)
            if not depth:
                return [*found, (token.end(), len(text), "note")]
            continue
        found.append((*token.span(), "doc" if token[0] == DOCUMENT else kind))
        if kind == "text":
            braces = _BRACES.finditer(text, *token.span())
            found += ((*one.span(), "ref") for one in braces)
    return found
