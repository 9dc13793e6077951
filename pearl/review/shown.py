"""A plan as the page shows it: its lines, what the checker finds in them, the picture."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pearl.checker import check
from pearl.diagnostics import Diagnostic, Safety, Severity
from pearl.draw import svg
from pearl.graph import dependencies, outputs, reads_document
from pearl.library import Library
from pearl.plan import Plan
from pearl.source import Source
from pearl.syntax import parse

DRAWN = 200
"""Steps of a plan that is drawn; nobody sees anything in a larger picture."""

SHOWN = 200
"""Findings that are shown; who mends these will see the others."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a line: its text, and the severity of a finding on it, or nothing."""

    text: str
    severity: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a plan.

    Args:
        number: counted from 1.
        pieces: its text, in order.
        comment: whether it says nothing to the checker.
    """

    number: int
    pieces: tuple[Piece, ...]
    comment: bool


@dataclass(frozen=True, slots=True)
class Finding:
    """What the checker says, in the words that the terminal has.

    Args:
        code: the rule's.
        name: the rule's name.
        severity: ``error`` or ``warning``.
        line: where, counted from 1.
        column: likewise.
        message: one fact.
        labels: other places that matter.
        help: the act that mends it, in lines.
        fix: what ``pearl lint`` would do, and with which option; or nothing.
    """

    code: str
    name: str
    severity: str
    line: int
    column: int
    message: str
    labels: tuple[str, ...]
    help: tuple[str, ...]
    fix: str


@dataclass(frozen=True, slots=True)
class PlanShown:
    """A plan with all that is said of it.

    Args:
        text: as it was written.
        lines: the same in lines.
        findings: in the order of the text.
        more: how many further ones are not shown.
        summary: how many there are, in words.
        picture: what uses what, as an address of the picture itself; empty
            where there is nothing to draw.
        uses: the same in words, a step a line.
    """

    text: str
    lines: tuple[Line, ...]
    findings: tuple[Finding, ...]
    more: int
    summary: str
    picture: str
    uses: tuple[str, ...]


def show_plan(name: str, text: str, library: Library) -> PlanShown:
    """Read and check a plan, and draw it.

    Args:
        name: what a person calls it.
        text: the plan.
        library: the actions it may call.
    """
    source = Source(name, text)
    parsed = parse(source)
    found = check(parsed, library)
    return PlanShown(
        text,
        tuple(_lines(source, found)),
        tuple(_finding(one, source) for one in found[:SHOWN]),
        max(0, len(found) - SHOWN),
        summary(found),
        _picture(parsed.plan),
        tuple(_uses(parsed.plan)),
    )


def summary(found: Sequence[Diagnostic]) -> str:
    """How many findings there are, in words."""
    errors = sum(one.severity is Severity.ERROR for one in found)
    counts = [(errors, "error"), (len(found) - errors, "warning")]
    told = [f"{count} {noun}{'s'[: count != 1]}" for count, noun in counts if count]
    return f"{' and '.join(told)}." if told else "No findings."


def _lines(source: Source, found: Sequence[Diagnostic]) -> Iterator[Line]:
    severities = [""] * len(source.text)
    for one in sorted(found, key=lambda one: one.severity is Severity.ERROR):
        end = max(one.span.end, one.span.start + 1)
        for at in range(one.span.start, min(end, len(source.text))):
            severities[at] = str(one.severity)
    start = 0
    for number, line in enumerate(source.text.rstrip("\n").split("\n"), 1):
        comment = line.lstrip().startswith("#")
        yield Line(number, tuple(_pieces(line, severities[start : start + len(line)])), comment)
        start += len(line) + 1


def _pieces(line: str, severities: Sequence[str]) -> Iterator[Piece]:
    start = 0
    for at in range(1, len(line) + 1):
        if at == len(line) or severities[at] != severities[start]:
            yield Piece(line[start:at], severities[start])
            start = at


def _finding(one: Diagnostic, source: Source) -> Finding:
    line, column = source.position(one.span.start)
    labels = [f"{label.text}: line {source.position(label.span.start)[0]}" for label in one.labels]
    fix = ""
    if one.fix:
        how = "--fix" if one.fix.safety is Safety.SAFE else "--unsafe-fixes"
        fix = f"{one.fix.title} (pearl lint {how})"
    return Finding(
        one.code, one.name, str(one.severity), line, column, one.message, tuple(labels),
        tuple(one.help.splitlines()), fix,
    )  # fmt: skip


def _picture(plan: Plan) -> str:
    if not 0 < len(plan.steps) <= DRAWN:
        return ""
    # As a picture, and not as a part of the page, nothing in it can run or be styled from without.
    data = base64.b64encode(svg(plan).encode("utf-8", "replace")).decode()
    return f"data:image/svg+xml;base64,{data}"


def _uses(plan: Plan) -> Iterator[str]:
    needs = dependencies(plan.steps)
    ends = set(outputs(plan))
    for number, step in enumerate(plan.steps, 1):
        inputs = ["the document"] if reads_document(step) else []
        inputs += needs[step.name]
        told = f"{number}. {step.name} uses {', '.join(inputs) or 'nothing'}"
        yield f"{told}; it is part of the answer." if step.name in ends else f"{told}."
