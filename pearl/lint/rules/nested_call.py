"""A call inside another call's arguments.

What it does
    Reports a call that stands where an argument should.

Why
    Every step has a name, so that its output can be seen, cached and used
    again. A call inside a call has none.

Example
    1. a = CONCAT(FIND_CHARACTER(CTX, "Ross"), "and Mara") : Combine them

Use instead
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. a = CONCAT(ross, "and Mara") : Combine them

Fix
    Unsafe: gives the inner call a step of its own, with a name made up.
"""

from pearl.lang.splitter import call_end
from pearl.lint.rules.base import (
    ERROR,
    Broken,
    Diagnostic,
    Edit,
    Fix,
    Rule,
    Safety,
    Span,
    word_start,
)


def explain(broken: Broken) -> Diagnostic | None:
    inside = broken.before == "NAME" and "_COMMA" in broken.accepts
    if broken.got != "_OPEN" or not (inside or broken.kind == "return"):
        return None
    text, opening = broken.source.text, broken.at.start
    start = word_start(text, opening)
    name = text[start:opening].strip()
    end = call_end(text, opening, broken.span.end)
    # Where the inner call takes the other's bracket, the other would have none.
    outer = call_end(text, text.rfind("(", broken.span.start, start), broken.span.end)
    own_step = broken.name and end > 0 and (outer > end or broken.kind == "return")
    return RULE(
        Span(start, end if end > 0 else broken.span.end),
        f"{name}(…) is called inside another call.",
        help=f"Give {name}(…) a step of its own, and use that step's name here.",
        data={"action": name},
        fix=_fix(broken, Span(start, end)) if own_step else None,
    )


def _fix(broken: Broken, inner: Span) -> Fix | None:
    if "\n" in broken.text:
        return None
    line = broken.source.text.rfind("\n", 0, broken.span.start) + 1
    name = f"{broken.name}_part"
    while name in broken.source.text:
        name += "_1"
    step = f"{name} = {broken.source.at(inner)}\n"
    return Fix(
        "give the inner call its own step",
        (Edit(Span(line, line), step), Edit(inner, name)),
        Safety.UNSAFE,
    )


RULE = Rule("PRL104", "nested-call", ERROR, __doc__, explain=explain)
