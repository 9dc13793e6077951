"""A text with nothing in it.

What it does
    Reports ``""`` as an argument, but of builtins such as SPLIT, which may mean it,
    and of actions whose examples have such a text in its place.

Why
    The action's definition speaks of this argument, and there is nothing.

Example
    1. a = FIND_CHARACTER(CTX, "") : Identify Ross

Use instead
    1. a = FIND_CHARACTER(CTX, "Ross") : Identify Ross

Fix
    None.
"""

from pearl.lint.rules.base import WARNING, Findings, PlanView, Rule, taught


def check(view: PlanView) -> Findings:
    for index, place, arg in view.literals:
        if type(arg.value) is str and not arg.value.strip():
            action = view.actions[index]
            if action and action.is_builtin and not action.variadic:
                continue
            if action and any(
                type(value) is str and not value.strip() for value in taught(action, place)
            ):
                continue
            yield RULE(
                arg.span,
                f"{view.plan.steps[index].action} is given an empty text.",
                help="Say what to look for, or use an action without this argument.",
            )


RULE = Rule("PRL409", "empty-text", WARNING, __doc__, plan=check)
