"""A text with braces around a name that no step has.

What it does
    Reports ``{name}`` inside a text where no earlier step is called ``name``.

Why
    Braces put an earlier output into a text. With no such output the braces
    themselves would reach the model.

Example
    1. films = FIND_ALL(CTX, "the films of {director}") : List the films

Use instead
    1. director = FIND_CHARACTER(CTX, "the director") : Identify the director
    2. films = FIND_ALL(CTX, "the films of {director}") : List the films

Fix
    Unsafe: writes ``\\{``, which stands for the brace itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from pearl.diagnostics import Diagnostic, Edit, Fix, Safety, Severity
from pearl.plan import DOCUMENT, Arg, Items, Ref, Template
from pearl.rules.base import PlanView, Rule
from pearl.source import Span


def check(view: PlanView) -> Iterator[Diagnostic]:
    for step in view.plan.steps:
        for arg in step.args:
            if type(arg) is Template or type(arg) is Items:
                for ref in _in_templates(arg):
                    if ref.name == DOCUMENT:
                        yield _finding(ref, "The document cannot stand inside a text.")
                    elif ref.name not in view.defined and ref.name not in view.broken_names:
                        yield _finding(ref, f"{{{ref.name}}} names no step.")


def _finding(ref: Ref, message: str) -> Diagnostic:
    brace = Span(ref.span.start, ref.span.start + 1)
    return RULE(
        ref.span,
        message,
        help="Name an earlier step, or write \\{ where you mean the brace.",
        data={"name": ref.name},
        fix=Fix("write \\{", (Edit(brace, "\\{"),), Safety.UNSAFE),
    )


def _in_templates(arg: Arg) -> Iterator[Ref]:
    if isinstance(arg, Template):
        yield from (part for part in arg.parts if isinstance(part, Ref))
    elif isinstance(arg, Items):
        for item in arg.items:
            yield from _in_templates(item)


RULE = Rule("PRL209", "unknown-template-name", Severity.ERROR, __doc__, plan=check)
