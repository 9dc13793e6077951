"""A new action that no step calls.

What it does
    Reports a declaration under ``New actions:`` that the plan does not use.

Why
    Either a step is missing, or it calls something else by mistake.

Example
    New actions:
    - FIND_HABIT(CTX, X) : Find what X does every day in CTX

    1. a = FIND_CHARACTER(CTX, "Ross") : Identify Ross

Use instead
    New actions:
    - FIND_HABIT(CTX, X) : Find what X does every day in CTX

    1. a = FIND_HABIT(CTX, "Ross") : Find Ross's habits

Fix
    None.
"""

from pearl.lint.rules.base import WARNING, Findings, PlanView, Rule


def check(view: PlanView) -> Findings:
    if not view.plan.declares or view.broken:
        return
    called = {step.action for step in view.plan.steps}
    for action in view.plan.declares:
        if action.name not in called:
            yield RULE(
                action.span,
                f"{action.name} is declared and never called.",
                help="Call it, or take the declaration out.",
                data={"action": action.name},
            )


RULE = Rule("PRL406", "unused-declaration", WARNING, __doc__, plan=check)
