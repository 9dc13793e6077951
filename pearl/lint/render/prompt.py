"""For the model that wrote the plan: step numbers and words, no carets, no columns.

All errors at once, in step order; the same findings always give the same
text, so that a cache hits. A rule that speaks twice in a row adds its worked
example (docs/design.md, section 5).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from pearl.lang.diagnostics import Diagnostic, Severity
from pearl.lang.parser import parse
from pearl.lang.source import Source, Span
from pearl.lang.text import shorten
from pearl.lint.render.report import Renderer, Report
from pearl.lint.rules import RULES, unknown_action

HEADING = "The checker rejected your plan. Return the whole corrected plan only."
STEP_HEADING = (
    "The checker rejected your step. Reply with the corrected step only, on one line, or with "
    "return and a name."
)
_LONGEST = 200


def render(reports: Sequence[Report], seen: Collection[str] = ()) -> str:
    """What the model is told; empty where there is no error.

    Args:
        reports: findings in one plan; more than one report is put together.
        seen: codes that were reported for the plan before this one too.
    """
    told = RENDERER(reports)
    codes = {error.code for report in reports for error in _errors(report)}
    examples = [line for code in sorted(codes.intersection(seen)) for line in _example(code)]
    return told + "".join(f"{line}\n" for line in examples)


def _part(report: Report) -> str:
    return "".join(f"{line}\n" for line in _described(report.source, _errors(report)))


def _whole(parts: Iterable[str], _: Collection[str]) -> Iterator[str]:
    heading = f"{HEADING}\n"
    for part in parts:
        yield heading + part
        heading = ""


RENDERER = Renderer(_part, _whole)


def _errors(report: Report) -> list[Diagnostic]:
    return [found for found in report.diagnostics if found.severity is Severity.ERROR]


def render_step(source: Source, findings: Sequence[Diagnostic]) -> str:
    """What a model is told that writes one step at a time, and cannot declare actions.

    Args:
        source: its reply.
        findings: in the step, all of which keep it from being taken.
    """
    lines = [STEP_HEADING]
    for finding in findings:
        at = source.position(finding.span.start)[0] if source.text else 1
        lines.append(f"[{finding.code}] {_quoted(source.line(at))}: {finding.message}")
        text = finding.help
        if finding.code == unknown_action.RULE.code:
            close = "; ".join(finding.data["candidates"])
            text = f"Closest: {close}." if close else "Use one of the actions that are listed."
        lines += _indent(text)
    return "\n".join(lines) + "\n"


def _described(source: Source, errors: Sequence[Diagnostic]) -> Iterator[str]:
    """The lines about one plan's errors."""
    if not errors:
        return
    parsed = parse(source)
    broken = {line.span for line in parsed.broken if line.kind == "step"}
    steps = sorted(broken.union(step.span for step in parsed.plan.steps))
    for error in sorted(errors, key=lambda error: (error.span, error.code)):
        yield f"[{error.code}] {_place(error.span.start, source, steps, broken)}: {error.message}"
        yield from _indent(error.help)


def _place(offset: int, source: Source, steps: Sequence[Span], broken: Collection[Span]) -> str:
    """The step's number, with its words where it cannot be read; else the line's words."""
    for number, span in enumerate(steps, 1):
        if span.start <= offset <= span.end:
            return f"step {number}" + (f" {_quoted(source.at(span))}" if span in broken else "")
    line = source.line(source.position(offset)[0])
    return _quoted(line) if line.strip() else "the plan"


def _quoted(text: str) -> str:
    return f"`{shorten(text, _LONGEST)}`"


def _example(code: str) -> list[str]:
    rule = next((rule for rule in RULES if rule.code == code), None)
    if rule is None or not rule.section("Example"):
        return []
    wrong, right = rule.section("Example"), rule.section("Use instead")
    return [f"An example of {code}. Wrong:", *_indent(wrong), "Right:", *_indent(right)]


def _indent(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]
