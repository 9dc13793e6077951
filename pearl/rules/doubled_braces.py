"""A name in double braces inside a text.

What it does
    Reports ``{{name}}`` inside a quoted text.

Why
    In some languages it stands for the name's value, in others for the braces
    themselves. Here it would be the value with braces around it.

Example
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. boss = FIND_CHARACTER(CTX, "the boss of {{ross}}") : Identify his boss

Use instead
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. boss = FIND_CHARACTER(CTX, "the boss of {ross}") : Identify his boss

Fix
    Unsafe: takes one pair of braces out.
"""

from __future__ import annotations

from collections.abc import Iterator

from pearl.diagnostics import Diagnostic, Edit, Fix, Safety, Severity
from pearl.rules.base import PlanView, Rule
from pearl.source import Span


def check(view: PlanView) -> Iterator[Diagnostic]:
    text = view.source.text
    for ref in view.template_refs:
        start, end = ref.span.start - 1, ref.span.end + 1
        if text[start : start + 1] != "{" or text[end - 1 : end] != "}" or text[start - 1] == "\\":
            continue
        span = Span(start, end)
        yield RULE(
            span,
            f"{text[start:end]} has two pairs of braces.",
            help=f"Write {{{ref.name}}} for what the step found, \\{{ for a brace itself.",
            data={"name": ref.name},
            fix=Fix(
                f"write {{{ref.name}}}", (Edit(span, text[start + 1 : end - 1]),), Safety.UNSAFE
            ),
        )


RULE = Rule("PRL210", "doubled-braces", Severity.ERROR, __doc__, plan=check)
