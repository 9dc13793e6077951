"""What Pearl says about a plan or a library: one type, many renderers."""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from typing import Any

from pearl.lang.errors import UnreadableError
from pearl.lang.source import Source, Span, TextKind


class Severity(StrEnum):
    """An error stops a plan from running; a warning is a doubt about it."""

    ERROR = "error"
    WARNING = "warning"


class Safety(StrEnum):
    """A safe fix keeps the plan's meaning; an unsafe one guesses at it."""

    SAFE = "safe"
    UNSAFE = "unsafe"


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the text of a span."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits that are applied together, and how safe they are.

    Args:
        title: what the fix does, as an act ("quote the text").
        edits: replacements in the source, none overlapping another.
        safety: whether the plan's meaning is kept.
    """

    title: str
    edits: tuple[Edit, ...]
    safety: Safety = Safety.SAFE


@dataclass(frozen=True, slots=True)
class Label:
    """A second place that explains the first."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding.

    Args:
        code: stable and never reused, as ``PRL201``.
        name: the rule's name, as ``unknown-action``.
        severity: error or warning.
        span: where.
        message: one fact, in one sentence.
        help: the act that mends it.
        labels: other places that matter.
        data: names and candidates, for programs; renderers read no prose.
        fix: edits that mend it, when there is one way to.
    """

    code: str
    name: str
    severity: Severity
    span: Span
    message: str
    help: str = ""
    labels: tuple[Label, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    fix: Fix | None = None


@dataclass(frozen=True, slots=True)
class SourceFindings:
    """A source, what was found in it, and what it holds."""

    source: Source
    diagnostics: Sequence[Diagnostic]
    kind: TextKind = TextKind.PLAN


@dataclass(frozen=True, slots=True)
class Renderer:
    """A format of findings, written report by report, so that a million reports fit in memory.

    Args:
        part: the text of one report; empty where there is nothing to say.
        whole: joins the texts that are not empty. It is also given the codes of all findings and
            the texts that cannot be read; both are complete only after the last part.
    """

    part: Callable[[SourceFindings], str]
    whole: Callable[[Iterable[str], Collection[str], Iterable[UnreadableError]], Iterator[str]]


def errors_of(findings: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The errors among findings."""
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def apply_fixes(text: str, fixes: Sequence[Fix]) -> tuple[str, tuple[Fix, ...]]:
    """Apply fixes to a text.

    A fix that overlaps one already taken is left for the next round.

    Returns:
        The new text and the fixes that were applied.
    """
    edits: list[Edit] = []
    applied: list[Fix] = []
    for fix in fixes:
        if any(_overlaps(edit.span, edits) for edit in fix.edits):
            continue
        for edit in fix.edits:
            insort(edits, edit, key=_span)
        applied.append(fix)
    parts: list[str] = []
    done = 0
    for edit in edits:
        parts += (text[done : edit.span.start], edit.text)
        done = max(done, edit.span.end)
    return "".join((*parts, text[done:])), tuple(applied)


_span = attrgetter("span")


def _overlaps(span: Span, edits: Sequence[Edit]) -> bool:
    """Whether a span overlaps one of the edits, which are sorted and do not overlap."""
    at = bisect_left(edits, span, key=_span)
    near = (edit.span for edit in edits[max(at - 1, 0) : at + 1])
    return any(span == to or (span.start < to.end and to.start < span.end) for to in near)
