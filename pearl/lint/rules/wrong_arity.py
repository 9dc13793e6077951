"""A call with too few or too many arguments.

What it does
    Compares a call's arguments with the action's parameters.

Why
    The definition speaks of every parameter; with one missing it says nothing.

Example
    1. tie = FIND_RELATION(CTX, "Ross") : Find how they stand to each other

Use instead
    1. tie = FIND_RELATION(CTX, "Ross", "Mara") : Find how they stand to each other

Fix
    None.
"""

from pearl.lang.text import counted
from pearl.lint.rules.base import ERROR, Findings, PlanView, Rule


def check(view: PlanView) -> Findings:
    for step, action in zip(view.plan.steps, view.actions, strict=True):
        if not action:
            continue
        count = len(step.args)
        if action.takes(count):
            continue
        takes = f"{'at least ' if action.variadic else ''}{counted(action.fewest, 'argument')}"
        yield RULE(
            step.action_span,
            f"{step.action} takes {takes}, and is given {count}.",
            help=f"Write {action.signature}.",
            data={"action": step.action, "signature": action.signature, "given": count},
        )


RULE = Rule("PRL203", "wrong-arity", ERROR, __doc__, plan=check)
