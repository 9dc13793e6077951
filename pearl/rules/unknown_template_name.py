"""A text with braces around a name that no step has.

What it does
    Reports ``{name}`` inside a text where no earlier step is called ``name``,
    and forms that a reference cannot have, as ``{name.part}`` or ``{#1}``.

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

import re
from collections.abc import Iterator

from pearl.diagnostics import Diagnostic, Edit, Fix, Safety, Severity
from pearl.plan import DOCUMENT, Literal, Template
from pearl.rules.base import PlanView, Rule
from pearl.source import Source, Span

_ALMOST = re.compile(
    r"(?<!\\)\{\s*([#$@]?\d{1,2}|step[ _]?\d{1,2}|[#$@][^\W\d]\w*"
    r"|[^\W\d]\w*(?:\.[^\W\d]\w*|\[[^\[\]{}]{0,40}\]|\([^(){}]{0,40}\))+)\s*\}"
)


def check(view: PlanView) -> Iterator[Diagnostic]:
    for ref in view.template_refs:
        if ref.name == DOCUMENT:
            yield _finding(ref.span, ref.name, "The document cannot stand inside a text.")
        elif ref.name not in view.defined and ref.name not in view.broken_names:
            yield _finding(ref.span, ref.name, f"{{{ref.name}}} names no step.")
    for step in view.plan.steps:
        for arg in step.args:
            if type(arg) is Template or (type(arg) is Literal and _has_brace(arg)):
                yield from _almost(view.source, arg.span)


def _has_brace(arg: Literal) -> bool:
    return type(arg.value) is str and "{" in arg.value


def _almost(source: Source, span: Span) -> Iterator[Diagnostic]:
    """Braces around what looks like a reference and is none."""
    for found in _ALMOST.finditer(source.text, *span):
        yield _finding(Span(*found.span()), found[1], f"{found[0]} names no step.")


def _finding(span: Span, name: str, message: str) -> Diagnostic:
    brace = Span(span.start, span.start + 1)
    return RULE(
        span,
        message,
        help="Name an earlier step, or write \\{ where you mean the brace.",
        data={"name": name},
        fix=Fix("write \\{", (Edit(brace, "\\{"),), Safety.UNSAFE),
    )


RULE = Rule("PRL209", "unknown-template-name", Severity.ERROR, __doc__, plan=check)
