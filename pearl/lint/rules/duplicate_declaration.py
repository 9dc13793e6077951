"""An action that a plan declares twice.

What it does
    Reports a name that stands twice under ``New actions:``.

Why
    The second definition would be dropped without a word.

Example
    New actions:
    - FIND_HABIT(CTX, X) : Find what X does every day in CTX
    - FIND_HABIT(CTX, X) : Find the habits of X in CTX

    1. a = FIND_HABIT(CTX, "Ross") : Find Ross's habits

Use instead
    New actions:
    - FIND_HABIT(CTX, X) : Find what X does every day in CTX

    1. a = FIND_HABIT(CTX, "Ross") : Find Ross's habits

Fix
    None.
"""

from pearl.lint.rules.base import ERROR, Action, Findings, Label, PlanView, Rule


def check(view: PlanView) -> Findings:
    declared: dict[str, Action] = {}
    for action in view.plan.declares:
        first = declared.setdefault(action.name, action)
        if first is not action:
            yield RULE(
                action.span,
                f"{action.name} is declared twice.",
                help="Keep one of the two.",
                labels=(Label(first.span, "first declared here"),),
                data={"action": action.name},
            )


RULE = Rule("PRL207", "duplicate-declaration", ERROR, __doc__, plan=check)
