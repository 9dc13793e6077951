"""A declaration that cannot be read.

What it does
    Reports a line of an action library, or under ``New actions:``, that is not
    ``NAME(PARAMETER, …) : definition``.

Why
    An action that is dropped in silence is missed only when a plan calls it.

Example
    New actions:
    - FIND_TRUST(CTX, X Y) : Find how far X trusts Y in CTX

    1. a = FIND_TRUST(CTX, "Ross", "Mara") : Find how far Ross trusts Mara

Use instead
    New actions:
    - FIND_TRUST(CTX, X, Y) : Find how far X trusts Y in CTX

    1. a = FIND_TRUST(CTX, "Ross", "Mara") : Find how far Ross trusts Mara

Fix
    None.
"""

from __future__ import annotations

from pearl.lang.ast import Broken
from pearl.lang.diagnostics import Diagnostic, Severity
from pearl.lang.source import Source
from pearl.lang.text import shorten
from pearl.lint.rules.base import Rule


def explain(broken: Broken, source: Source) -> Diagnostic | None:
    if broken.kind != "action":
        return None
    token = shorten(source.at(broken.at), 20)
    where = f"{token} cannot stand here" if token else "the line ends too early"
    wanted = (
        "a type is one of any, text, number, bool, list, pairs"
        if ("TYPE" in broken.accepts)
        else "write NAME(CTX, X) -> type : definition"
    )
    return RULE(
        broken.at if token else broken.span,
        f"The action {broken.name or shorten(source.at(broken.span))} cannot be read: {where}.",
        help=f"{wanted[0].upper()}{wanted[1:]}.",
        data={"action": broken.name},
    )


RULE = Rule("PRL118", "unreadable-action", Severity.ERROR, __doc__, explain=explain)
