"""An action without a definition.

What it does
    Reports an action of a library, or under ``New actions:``, that says
    nothing about what it does.

Why
    The definition is the instruction the model carries out.

Example
    FIND_HABIT(CTX, X)

Use instead
    FIND_HABIT(CTX, X) : Find what X does every day in CTX.

Fix
    None.
"""

from collections.abc import Iterable

from pearl.lang.printer import print_action
from pearl.lint.rules.base import ERROR, Action, Findings, Rule


def check(actions: Iterable[Action]) -> Findings:
    for action in actions:
        if not action.doc and not action.is_builtin:
            yield RULE(
                action.span,
                f"{action.name} has no definition.",
                help=f"Write {print_action(action)} : what it finds out.",
                data={"action": action.name},
            )


RULE = Rule(
    "PRL502",
    "missing-definition",
    ERROR,
    __doc__,
    plan=lambda view: check(view.plan.declares),
    library=lambda view: check(view.actions),
)
