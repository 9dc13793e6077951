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
from pearl.lint.rules.quoted_document import names_document


def check(view: PlanView) -> Findings:
    steps = view.plan.steps
    # An undefined name, such as ctx, may mean the document; another rule reports it.
    named = DOCUMENT in view.uses or not view.uses.keys() <= view.defined.keys()
    if steps and not named and not view.broken and not _reads_elsewhere(view):
        yield RULE(
            steps[0].span,
            f"No step reads the document ({DOCUMENT}).",
            help=f"Give {DOCUMENT} to the steps that should look something up.",
        )


def _reads_elsewhere(view: PlanView) -> bool:
    """Whether steps name a part of the document, or call a solver, a function, a plan or a
    decomposition, which may know without it; or no action of the library takes the document."""
    actions = [action for action in view.library.actions.values() if not action.is_builtin]
    if actions and not any(param.name == DOCUMENT for action in actions for param in action.params):
        return True
    outside = Solver | SubPlan | Decomposed | Function
    if any(action and isinstance(action.body, outside) for action in view.actions):
        return True
    # A document's bare name is meant to read it, and is reported by its own rule.
    return names_document(view) or any(is_label(arg.value) for _, _, arg in view.literals)


RULE = Rule("PRL405", "unread-document", WARNING, __doc__, plan=check)
