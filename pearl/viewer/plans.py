"""A plan as a page shows it: its text coloured, with findings at their lines, and its picture."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from pearl.lang.ast import DOCUMENT
from pearl.lang.diagnostics import Diagnostic, Severity
from pearl.lang.source import Source

_STEP = re.compile(r"\s*(?P<number>\d+[.)])?\s*(?P<name>\w+)\s*=\s*(?P<action>\w+)\s*\(")
_DECLARED = re.compile(r"\s*-\s*(?P<action>\w+)\s*\(")
_HEAD = re.compile(r"(?P<key>question:|New actions:)(?P<note>.*)", re.IGNORECASE)
_RETURN = re.compile(r"(?P<key>return)\s+(?P<ref>.+)")
_REMARK = re.compile(r"(?P<remark>\s*#.*)")
_TOKEN = re.compile(
    r'(?P<text>"(?:\\.|[^"\\])*"?)|(?P<lit>-?\b\d[\d.]*\b|\b(?:true|false)\b)'
    r"|(?P<key>\b(?:each|where|values|evidence)\b)|(?P<ref>\b[^\W\d]\w*\b)|(?P<other>.)",
    re.DOTALL,
)
_BRACES = re.compile(r"(?<!\\)\{\s*(?:(?:each|where|evidence)\s+(?:values\s+)?)?(\w+)\s*\}")

Kinds = Iterable[tuple[int, int, str]]
"""Stretches of a line, each with the name of its class; later ones over earlier ones."""


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


def syntax(line: str) -> Kinds:
    """The parts of a plan's line: numbers, names, actions, arguments, notes."""
    if match := _STEP.match(line) or _DECLARED.match(line):
        named = [(*match.span(kind), kind) for kind in match.groupdict() if match[kind]]
        return [*named, *_arguments(line, match.end())]
    if match := _REMARK.fullmatch(line) or _HEAD.match(line) or _RETURN.match(line):
        return [(*match.span(kind), kind) for kind in match.groupdict()]
    return []


def _arguments(line: str, start: int) -> Iterator[tuple[int, int, str]]:
    """The parts of a call's arguments, and the note behind them."""
    depth = 1
    for token in _TOKEN.finditer(line, start):
        kind = str(token.lastgroup)
        if kind == "other":
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token[0], 0)
            if not depth:
                yield token.end(), len(line), "note"
                return
            continue
        yield (*token.span(), "doc" if token[0] == DOCUMENT else kind)
        if kind == "text":
            for braces in _BRACES.finditer(line, *token.span()):
                yield (*braces.span(), "ref")


def plain(_: str) -> Kinds:
    """No parts: a line without colours."""
    return ()


def plan_lines(
    source: Source, findings: Sequence[Diagnostic] = (), kinds: Callable[[str], Kinds] = syntax
) -> list[Line]:
    """A plan's lines; a finding's place has its severity as a class.

    Args:
        source: its text, in canonical form or as a model wrote it.
        findings: what the checker says of it, with places in this text.
        kinds: the parts of a line: `syntax` or `plain`.
    """
    ranked = sorted(findings, key=lambda finding: finding.severity is Severity.ERROR)
    lines: list[Line] = []
    start = 0
    for number, text in enumerate(source.text.split("\n"), 1):
        classes = [""] * len(text)
        for begin, end, kind in kinds(text):
            classes[begin:end] = [kind] * (end - begin)
        marks = [""] * len(text)
        for finding in ranked:
            begin, end = finding.span.start - start, finding.span.end - start
            for at in range(max(begin, 0), min(max(end, begin + 1), len(text))):
                marks[at] = str(finding.severity)
        both = [f"{kind} {mark}".strip() for kind, mark in zip(classes, marks, strict=True)]
        parts = tuple(
            (key, "".join(text[at] for at in places).replace("\r", ""))
            for key, places in groupby(range(len(text)), key=both.__getitem__)
        )
        own = (finding for finding in findings if start <= finding.span.start <= start + len(text))
        lines.append(Line(number, parts, tuple(own)))
        start += len(text) + 1
    while len(lines) > 1 and not lines[-1].parts and not lines[-1].findings:
        lines.pop()
    return lines
