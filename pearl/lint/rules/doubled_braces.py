"""A name in double braces inside a text.

What it does
    Reports ``{{name}}`` inside a quoted text.

Why
    In some languages it stands for the name's value, in others for the braces
    themselves. Here it would be the value with braces around it.

Example
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. boss = FIND_CHARACTER(CTX, "the boss of {{ross}}") : Identify his boss

Use instead
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. boss = FIND_CHARACTER(CTX, "the boss of {ross}") : Identify his boss

Fix
    Unsafe: takes one pair of braces out.
"""

from pearl.lint.rules.base import ERROR, Broken, Diagnostic, Rule, guess


def explain(broken: Broken) -> Diagnostic | None:
    if broken.got != "BRACES":
        return None
    text = broken.token
    inner = text[1:-1]
    return RULE(
        broken.at,
        f"{text} has two pairs of braces.",
        help=f"Write {inner} for what the step found, \\{{ for a brace itself.",
        data={"name": text.strip("{ }")},
        fix=guess(broken.at, inner),
    )


RULE = Rule("PRL210", "doubled-braces", ERROR, __doc__, explain=explain)
