"""A step with other words before it on its line.

What it does
    Reports ``name = ACTION(…)`` inside a sentence, a table, a string or a
    list, where no step of that name stands on a line of its own.

Why
    The words before may be a title, a remark, or a condition that the plan
    cannot hold; leaving them out, or the step, would change the plan.

Example
    1. Identify Ross: ross = FIND_CHARACTER(CTX, "Ross")

Use instead
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross

Fix
    None: whether the words belong to the plan is the author's to say.
"""

from pearl.lint.rules.base import ERROR, Broken, Diagnostic, Rule, shorten


def explain(broken: Broken) -> Diagnostic | None:
    if broken.got != "STEP" or broken.before:
        return None
    head = broken.source.text[broken.span.start : broken.at.start].strip()
    return RULE(
        broken.at,
        f"The step {broken.name} stands behind other words ({shorten(head, 30)}).",
        help="Start its line with name = ACTION(…); words go after the call, as : note.",
        data={"name": broken.name, "text": head},
    )


RULE = Rule("PRL119", "step-inside-text", ERROR, __doc__, explain=explain)
