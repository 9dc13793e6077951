"""More than one return.

What it does
    Reports a second ``return``.

Why
    Whether the first one ends the plan or both belong to the answer is not
    said.

Example
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. view = FIND_OPINION(CTX, ross, "the sale") : Find his opinion
    return ross
    return view

Use instead
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. view = FIND_OPINION(CTX, ross, "the sale") : Find his opinion
    return ross, view

Fix
    None.
"""

from pearl.lint.rules.base import ERROR, Broken, Diagnostic, Rule


def explain(broken: Broken) -> Diagnostic | None:
    if broken.kind != "return" or broken.got != "RETURN":
        return None
    return RULE(
        broken.span,
        "The plan has a return already.",
        help="Write one return, with every name: return a, b.",
    )


RULE = Rule("PRL123", "several-returns", ERROR, __doc__, explain=explain)
