"""A plan that never reads the document.

What it does
    Reports a plan in which no step takes ``CTX``, or a part of it by its label.

Why
    Its answer would come from the model's memory, not from the document.

Example
    1. ans = CONCAT("Ross leaves", "because of the sale") : Combine the reasons

Use instead
    1. ans = FIND_REASON(CTX, "Ross leaves") : Find why Ross leaves

Fix
    None.
"""

from pearl.lang.ast import DOCUMENT, Decomposed, Function, Solver, SubPlan
from pearl.lang.builtins import is_label
from pearl.lint.rules.base import WARNING, Findings, PlanView, Rule


def check(view: PlanView) -> Findings:
    steps = view.plan.steps
    if steps and DOCUMENT not in view.uses and not view.broken and not _reads_elsewhere(view):
        yield RULE(
            steps[0].span,
            f"No step reads the document ({DOCUMENT}).",
            help=f"Give {DOCUMENT} to the steps that should look something up.",
        )


def _reads_elsewhere(view: PlanView) -> bool:
    """Whether steps read a part of the document, or ask somebody who knows without it, as all do
    with a library whose actions read none."""
    asked = [one.params for one in view.library.actions.values() if not one.is_builtin]
    if asked and not any(param.name == DOCUMENT for params in asked for param in params):
        return True
    called = view.actions
    if any(
        one and isinstance(one.body, Solver | SubPlan | Decomposed | Function) for one in called
    ):
        return True
    return any(is_label(arg.value) for _, _, arg in view.literals)


RULE = Rule("PRL405", "unread-document", WARNING, __doc__, plan=check)
