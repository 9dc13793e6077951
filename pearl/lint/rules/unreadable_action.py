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

from pearl.lint.rules.base import ERROR, Broken, Diagnostic, Rule, shorten


def explain(broken: Broken) -> Diagnostic | None:
    if broken.kind != "action":
        return None
    token = shorten(broken.token, 20)
    where = f"{token} cannot stand here" if token else "the line ends too early"
    return RULE(
        broken.at if token else broken.span,
        f"The action {broken.name or shorten(broken.text)} cannot be read: {where}.",
        help="A type is one of any, text, number, bool, list, pairs."
        if "TYPE" in broken.accepts
        else "Write NAME(CTX, X) -> type : definition.",
        data={"action": broken.name},
    )


RULE = Rule("PRL118", "unreadable-action", ERROR, __doc__, explain=explain)
