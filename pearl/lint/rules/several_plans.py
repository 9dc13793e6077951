"""More than one plan in a reply.

What it does
    Reports a text with several code blocks that set the same names: a first
    draft and a second one, or a choice of plans.

Why
    Only one of them can be meant. The last one is read, and the plan is not
    run until the text holds one.

Example
    ```
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    ```
    Or, better:
    ```
    1. ross = FIND_TRAITS(CTX, "Ross") : Find how Ross is
    ```

Use instead
    1. ross = FIND_TRAITS(CTX, "Ross") : Find how Ross is

Fix
    None.
"""

from pearl.lint.rules.base import ERROR, Broken, Diagnostic, Rule


def explain(broken: Broken) -> Diagnostic | None:
    if broken.kind != "plans":
        return None
    return RULE(broken.span, "The text holds more than one plan.", help="Return one plan only.")


RULE = Rule("PRL114", "several-plans", ERROR, __doc__, explain=explain)
