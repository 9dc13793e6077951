"""For the model that wrote the plan: step numbers and words, no carets, no columns.

All errors at once, in step order; the same findings always give the same
text, so that a cache hits. A rule that is broken twice in a row adds its worked
example (docs/design.md, section 5).
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence

from pearl.lang.ast import DOCUMENT, Param
from pearl.lang.diagnostics import Diagnostic, Renderer, SourceFindings, errors_of
from pearl.lang.library import Library
from pearl.lang.parser import parse
from pearl.lang.source import Source, Span, TextKind
from pearl.lang.text import shorten
from pearl.lint.checker import check
from pearl.lint.rules import RULES, Rule, unknown_action

HEADING = "The checker rejected your plan. Return the whole corrected plan only."
LIBRARY_HEADING = "The checker rejected your library. Return the whole corrected library only."
STEP_HEADING = (
    "The checker rejected your step. Reply with the corrected step only, on one line, or with "
    "return and a name."
)
_LONGEST = 200


def render(report: SourceFindings, library: Library, repeated: Collection[str] = ()) -> str:
    """What the model is told; empty where there is no error.

    Args:
        report: findings in one plan.
        library: the actions that the plan may call, and that examples call.
        repeated: codes that were reported for the plan before this one too.
    """
    codes = {error.code for error in errors_of(report.diagnostics)}
    lines: list[str] = []
    for rule in sorted(RULES, key=lambda rule: rule.code):
        if rule.code in codes.intersection(repeated) and (example := _example(rule, library)):
            wrong, right = map(_indent, example)
            lines += [f"An example of {rule.code}. Wrong:", *wrong, "Right:", *right]
    return _part(report) + "".join(f"{line}\n" for line in lines)


def _example(rule: Rule, library: Library) -> tuple[str, str] | None:
    """A rule's worked example, wrong and right, written with a library's actions; None where the
    rule has no example, or the library no actions that fit it."""
    wrong, right = rule.section("Example"), rule.section("Use instead")
    plan = parse(right).plan
    named = library.with_declared(plan.declares)
    listed = [action for action in library.listed if action.params[:1] == (Param(DOCUMENT),)]
    for step in plan.steps:
        if not named.get(step.action):
            fitting = (action.name for action in listed if action.takes(len(step.args)))
            own = next(fitting, step.action)
            wrong, right = (re.sub(rf"\b{step.action}\b", own, text) for text in (wrong, right))
    codes = {found.code for found in check(parse(wrong), library)}
    as_meant = codes & {rule.code, unknown_action.RULE.code} == {rule.code}
    return (wrong, right) if as_meant and not errors_of(check(parse(right), library)) else None


def _part(report: SourceFindings) -> str:
    errors, source = errors_of(report.diagnostics), report.source
    if not errors:
        return ""
    if report.kind is TextKind.LIBRARY:
        broken, steps, lines = set[Span](), list[Span](), [LIBRARY_HEADING]
    else:
        parsed = parse(source)
        broken = {line.span for line in parsed.broken if line.kind == "step"}
        steps = sorted(broken.union(step.span for step in parsed.plan.steps))
        lines = [HEADING]
    for error in sorted(errors, key=lambda error: (error.span, error.code)):
        place = _place(error.span.start, source, steps, broken)
        lines += [f"[{error.code}] {place}: {error.message}", *_indent(error.help)]
    return "".join(f"{line}\n" for line in lines)


def _whole(parts: Iterable[str], *unused: Iterable[object]) -> Iterator[str]:
    del unused
    last = ""
    for part in parts:
        heading, _, rest = part.partition("\n")
        yield rest if heading == last else part
        last = heading


RENDERER = Renderer(_part, _whole)


def render_step(source: Source, findings: Sequence[Diagnostic]) -> str:
    """What a model is told that writes one step at a time and cannot declare actions.

    Args:
        source: its reply.
        findings: the findings for which the step is rejected.
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


def _place(offset: int, source: Source, steps: Sequence[Span], broken: Collection[Span]) -> str:
    """The step's number, with its words where it cannot be read; else the line's words."""
    number = bisect_right(steps, offset, key=lambda span: span.start)
    if number and offset <= (span := steps[number - 1]).end:
        return f"step {number}" + (f" {_quoted(source.at(span))}" if span in broken else "")
    line = source.line(source.position(offset)[0])
    return _quoted(line) if line.strip() else "the plan"


def _quoted(text: str) -> str:
    return f"`{shorten(text, _LONGEST)}`"


def _indent(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]
