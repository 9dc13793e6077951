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
    Unsafe: writes the name that it nearly is, or else ``\\{``, which stands for the
    brace itself. What resembles names is left.
"""

from bisect import bisect_right
from collections.abc import Sequence

from pearl.lang.ast import DOCUMENT, Ref
from pearl.lang.diagnostics import Diagnostic
from pearl.lint.rules.base import (
    ERROR,
    PART,
    Broken,
    Findings,
    PlanView,
    Rule,
    Span,
    alike,
    guess,
    names_above,
    part_of,
    resembling,
)


def check(view: PlanView) -> Findings:
    for ref in view.template_refs:
        if ref.name.casefold() == DOCUMENT.casefold():
            yield _finding(ref.span, ref.name, "The document cannot stand inside a text.")
        elif ref.name not in view.defined and ref.name not in view.broken_names:
            yield _finding(ref.span, ref.name, f"{{{ref.name}}} names no step.", *_near(view, ref))


def explain(broken: Broken) -> Diagnostic | None:
    if broken.got != "BRACE":
        return None
    text = broken.token
    part = PART.fullmatch(text.strip("{}").strip())
    if part and (name := part["name"]) in names_above(broken):
        return part_of(RULE, broken.at, text, name, f"{{{name}}}")
    return _finding(broken.at, text.strip("{ }"), f"{text} names no step.")


def _near(view: PlanView, ref: Ref) -> tuple[list[str], bool]:
    """The reference with the names of earlier steps that may be meant, and whether it nearly is
    the only one."""
    index = bisect_right(view.plan.steps, ref.span.start, key=lambda step: step.span.end)
    defined = view.names_before(index)
    close = alike(ref.name, defined, word=False)
    names = close or resembling(ref.name, defined)
    return [f"{{{f'{ref.mode} {name}'.lstrip()}}}" for name in names], len(close) == 1


def _finding(
    span: Span, name: str, message: str, near: Sequence[str] = (), sure: bool = False
) -> Diagnostic:
    help = "Name an earlier step, or write \\{ where you mean the brace."
    if near:
        help = f"Closest: {', '.join(near)}. {help}"
    fix = None
    if sure:
        fix = guess(span, near[0])
    elif not near:
        brace = Span(span.start, span.start + 1)
        fix = guess(brace, "\\{")
    return RULE(span, message, help=help, data={"name": name}, fix=fix)


RULE = Rule("PRL209", "unknown-template-name", ERROR, __doc__, plan=check, explain=explain)
