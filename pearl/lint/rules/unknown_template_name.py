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
    brace itself.
"""

from bisect import bisect_right

from pearl.lang.ast import DOCUMENT, Ref
from pearl.lang.diagnostics import Diagnostic, Edit, Fix, Safety
from pearl.lang.text import pattern
from pearl.lint.rules.base import (
    ERROR,
    Broken,
    Findings,
    PlanView,
    Rule,
    Span,
    names_above,
    nearest,
)

_PART = pattern(r"\{\s*([^\W\d]\w*)\s*[.\[]")
# A plan of many steps: the nearest names are looked at.
_MOST = 30


def check(view: PlanView) -> Findings:
    for ref in view.template_refs:
        if ref.name.casefold() == DOCUMENT.casefold():
            yield _finding(ref.span, ref.name, "The document cannot stand inside a text.")
        elif ref.name not in view.defined and ref.name not in view.broken_names:
            near = _nearest_ref(view, ref)
            yield _finding(ref.span, ref.name, f"{{{ref.name}}} names no step.", near)


def explain(broken: Broken) -> Diagnostic | None:
    if broken.got != "BRACE":
        return None
    text = broken.token
    part = _PART.match(text)
    if part and part[1] in names_above(broken):
        return RULE(
            broken.at,
            f"{text} names a part of {part[1]}.",
            help=f"Write {{{part[1]}}} for the whole, or find the part in a step of its own.",
            data={"name": part[1]},
        )
    return _finding(broken.at, text.strip("{ }"), f"{text} names no step.")


def _nearest_ref(view: PlanView, ref: Ref) -> str:
    """The reference with the name of an earlier step that it nearly is, or nothing."""
    steps = view.plan.steps
    index = bisect_right(steps, ref.span.start, key=lambda step: step.span.end)
    defined = (step.name for step in steps[max(0, index - _MOST) : index])
    name = nearest(ref.name, defined, word=False)
    return f"{ref.mode} {name}".lstrip() if name else ""


def _finding(span: Span, name: str, message: str, near: str = "") -> Diagnostic:
    brace = Span(span.start, span.start + 1)
    fix = Fix("write \\{", (Edit(brace, "\\{"),), Safety.UNSAFE)
    help = "Name an earlier step, or write \\{ where you mean the brace."
    if near:
        fix = Fix(f"write {{{near}}}", (Edit(span, f"{{{near}}}"),), Safety.UNSAFE)
        help = f"Closest: {{{near}}}. {help}"
    return RULE(
        span,
        message,
        help=help,
        data={"name": name},
        fix=fix,
    )


RULE = Rule("PRL209", "unknown-template-name", ERROR, __doc__, plan=check, explain=explain)
