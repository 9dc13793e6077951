"""Text that is no part of the plan.

What it does
    Reports prose, code fences, tags, headings and ``<think>`` blocks around or
    between steps. They are set aside and never run.

Why
    In a model's reply this is usual. In a plan file it may be a step that
    somebody forgot to write as one.

Example
    Here is my plan:
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    First we look at who Ross is.

Use instead
    # First we look at who Ross is.
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross

Fix
    Safe: makes the text a comment.
"""

from __future__ import annotations

from collections.abc import Iterator

from pearl.diagnostics import Diagnostic, Edit, Fix, Severity
from pearl.rules.base import PlanView, Rule, shown
from pearl.source import Span

_WHAT = {
    "prose": "is not a step",
    "wrapping": "says nothing to the plan",
    "thinking": "is the model's thinking, not its plan",
}


def check(view: PlanView) -> Iterator[Diagnostic]:
    text = view.source.text
    for aside in view.aside:
        span = aside.span
        yield RULE(
            span,
            f"{shown(text[span.start : span.end], 50)} {_WHAT[aside.kind]}.",
            help='Take it out, or make it a comment with "#".',
            data={"kind": aside.kind},
            fix=_comment_out(text, span),
        )


def _comment_out(text: str, span: Span) -> Fix:
    edits = []
    at = text.rfind("\n", 0, span.start) + 1
    while at < span.end:
        if text[at : text.find("\n", at) if text.find("\n", at) >= 0 else len(text)].strip():
            edits.append(Edit(Span(at, at), "# "))
        following = text.find("\n", at)
        at = following + 1 if following >= 0 else span.end
    return Fix("make it a comment", tuple(edits))


RULE = Rule("PRL107", "text-outside-plan", Severity.WARNING, __doc__, plan=check)
