"""A call that no name is given to.

What it does
    Reports a step without ``name =``.

Why
    Later steps reach an output by its name, and the journal keeps it under it.

Example
    1. FIND_CHARACTER(CTX, "Ross") : Identify Ross

Use instead
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross

Fix
    None: the name is the author's.
"""

from pearl.lint.rules.base import ERROR, Broken, Diagnostic, Rule, shorten


def explain(broken: Broken) -> Diagnostic | None:
    if broken.kind != "step" or broken.accepts != {"_ASSIGN"} or broken.got != "_OPEN":
        return None
    call = broken.source.text[broken.span.start : broken.at.start].strip()
    return RULE(
        broken.span,
        f"The call of {shorten(call)} has no name for its output.",
        help=f"Write name = {shorten(call)}(…). A new action's definition goes under New actions:.",
        data={"action": call},
    )


RULE = Rule("PRL105", "missing-name", ERROR, __doc__, explain=explain)
