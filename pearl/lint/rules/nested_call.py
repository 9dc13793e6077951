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

from __future__ import annotations

from pearl.lang.ast import Broken
from pearl.lang.diagnostics import Diagnostic, Edit, Fix, Safety, Severity
from pearl.lang.source import Source, Span
from pearl.lang.splitter import call_end
from pearl.lint.rules.base import Rule


def explain(broken: Broken, source: Source) -> Diagnostic | None:
    inside = broken.got == "_OPEN" and "_COMMA" in broken.accepts and broken.before == "NAME"
    if broken.kind == "return" and broken.got == "_OPEN":
        inside = True
    if not inside:
        return None
    text, opening = source.text, broken.at.start
    start = len(text[:opening].rstrip())
    while start > 0 and (text[start - 1].isalnum() or text[start - 1] in "_\\"):
        start -= 1
    name = text[start:opening].strip()
    end = call_end(text, opening, broken.span.end)
    return RULE(
        Span(start, end if end > 0 else broken.span.end),
        f"{name}(…) is called inside another call.",
        help=f"Give {name}(…) a step of its own, and use that step's name here.",
        data={"action": name},
        fix=_fix(broken, source, Span(start, end)) if end > 0 and broken.name else None,
    )


def _fix(broken: Broken, source: Source, inner: Span) -> Fix | None:
    line = source.text.rfind("\n", 0, broken.span.start) + 1
    if "\n" in source.text[broken.span.start : broken.span.end]:
        return None
    name = f"{broken.name}_part"
    while name in source.text:
        name += "_1"
    step = f"{name} = {source.at(inner)}\n"
    return Fix(
        "give the inner call its own step",
        (Edit(Span(line, line), step), Edit(inner, name)),
        Safety.UNSAFE,
    )


RULE = Rule("PRL104", "nested-call", Severity.ERROR, __doc__, explain=explain)
