"""For the model that wrote the plan: step numbers and words, no carets, no columns.

All errors at once, in step order; the same findings always give the same
text, so that a cache hits. A rule that speaks twice in a row adds its worked
example (DESIGN, section 5).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain

from pearl.diagnostics import Diagnostic, Severity
from pearl.render.report import Report
from pearl.rules import RULES
from pearl.source import Source
from pearl.syntax import parse

HEADING = "The checker rejected your plan. Return the whole corrected plan only."


def render(reports: Sequence[Report], seen: Collection[str] = ()) -> str:
    """What the model is told.

    Args:
        reports: findings in one plan; more than one report is put together.
        seen: codes that were reported for the plan before this one too.
    """
    errors = [
        (report.source, one)
        for report in reports
        for one in report.diagnostics
        if one.severity is Severity.ERROR
    ]
    if not errors:
        return ""
    lines = [HEADING]
    for source, diagnostic in errors:
        lines.extend(_told(source, diagnostic))
    again = sorted({diagnostic.code for _, diagnostic in errors} & set(seen))
    lines.extend(chain.from_iterable(_example(code) for code in again))
    return "\n".join(lines) + "\n"


def _told(source: Source, diagnostic: Diagnostic) -> list[str]:
    lines = [f"[{diagnostic.code}] {_where(source, diagnostic)}{diagnostic.message}"]
    for sentence in diagnostic.help.split("; "):
        lines.append(f"  {sentence}" if len(lines) == 1 else f"    {sentence}")
    return lines if len(lines) <= 2 else [lines[0], "  " + diagnostic.help]


def _where(source: Source, diagnostic: Diagnostic) -> str:
    parsed = parse(source)
    at = diagnostic.span.start
    starts = [step.span for step in parsed.plan.steps]
    starts += [line.span for line in parsed.broken if line.kind == "step"]
    for number, span in enumerate(sorted(starts), 1):
        if span.start <= at <= span.end:
            broken = any(line.span == span for line in parsed.broken)
            words = " ".join(source.at(span).split())
            quoted = f"`{words if len(words) <= 200 else words[:199] + '…'}` "
            return f"step {number}: {quoted if broken else ''}"
    line = source.line(source.position(at)[0]).strip()
    return f"`{line[:200]}`: " if line else ""


def _example(code: str) -> list[str]:
    rule = next((rule for rule in RULES if rule.code == code), None)
    if rule is None or not rule.section("Example"):
        return []
    wrong, right = rule.section("Example"), rule.section("Use instead")
    return [f"An example of {code}. Wrong:", *_indent(wrong), "Right:", *_indent(right)]


def _indent(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]
