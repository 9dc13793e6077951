"""For the model that wrote the plan: step numbers and words, no carets, no columns.

All errors at once, in step order; the same findings always give the same
text, so that a cache hits. A rule that speaks twice in a row adds its worked
example (DESIGN, section 5).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from pearl.lang.diagnostics import Diagnostic, Severity
from pearl.lang.parser import parse
from pearl.lang.source import Source
from pearl.lint.render.report import Report
from pearl.lint.rules import RULES

HEADING = "The checker rejected your plan. Return the whole corrected plan only."
_SHOWN = 200


def render(reports: Sequence[Report], seen: Collection[str] = ()) -> str:
    """What the model is told; empty where there is no error.

    Args:
        reports: findings in one plan; more than one report is put together.
        seen: codes that were reported for the plan before this one too.
    """
    lines: list[str] = []
    codes: set[str] = set()
    for report in reports:
        errors = [one for one in report.diagnostics if one.severity is Severity.ERROR]
        codes.update(one.code for one in errors)
        if errors:
            lines.extend(_told(report.source, errors))
    if not lines:
        return ""
    for code in sorted(codes.intersection(seen)):
        lines.extend(_example(code))
    return "\n".join([HEADING, *lines]) + "\n"


def _told(source: Source, errors: Sequence[Diagnostic]) -> Iterator[str]:
    steps = _Steps(source)
    for one in sorted(errors, key=lambda one: (one.span, one.code)):
        yield f"[{one.code}] {steps.place(one.span.start)}: {one.message}"
        for line in one.help.splitlines():
            yield f"  {line}"


class _Steps:
    """Where the steps of a plan stand, readable or not, for telling their numbers."""

    def __init__(self, source: Source) -> None:
        parsed = parse(source)
        self._source = source
        self._broken = {line.span for line in parsed.broken if line.kind == "step"}
        read = {step.span for step in parsed.plan.steps}
        self._spans = sorted(read | self._broken)

    def place(self, offset: int) -> str:
        """The step's number, with its words where it cannot be read; else the line's words."""
        for number, span in enumerate(self._spans, 1):
            if span.start <= offset <= span.end:
                words = f" `{_words(self._source.at(span))}`" if span in self._broken else ""
                return f"step {number}{words}"
        words = _words(self._source.line(self._source.position(offset)[0]))
        return f"`{words}`" if words else "the plan"


def _words(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _SHOWN else words[: _SHOWN - 1] + "…"


def _example(code: str) -> list[str]:
    rule = next((rule for rule in RULES if rule.code == code), None)
    if rule is None or not rule.section("Example"):
        return []
    wrong, right = rule.section("Example"), rule.section("Use instead")
    return [f"An example of {code}. Wrong:", *_indent(wrong), "Right:", *_indent(right)]


def _indent(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]
