"""A new action that the library already has.

What it does
    Reports a declaration under ``New actions:`` whose name is an action of the
    library that takes other parameters, gives another type, or is defined in
    other words. One that says the same as the library is no finding.

Why
    The library's definition is the one that counts, so the plan's own is not
    what the step does.

Example
    New actions:
    - FIND_CHARACTER(CTX, X, Y) : Find how X sees Y in CTX

    1. a = FIND_CHARACTER(CTX, "Ross") : Identify Ross

Use instead
    1. a = FIND_CHARACTER(CTX, "Ross") : Identify Ross

Fix
    None: a new action needs a new name.
"""

from pearl.lang.ast import Action, Param
from pearl.lang.values import Type
from pearl.lint.rules.base import ERROR, Findings, PlanView, Rule


def check(view: PlanView) -> Findings:
    for action in view.plan.declares:
        shipped = view.base.get(action.name)
        # An equal action is no clash, as in a trace that is older than the library's action.
        if shipped and _content(shipped) != _content(action):
            yield RULE(
                action.span,
                f"{action.name} is already in the library, as {shipped.signature}.",
                help="Use the library's, or give the new action another name.",
                data={"action": action.name, "signature": shipped.signature},
            )


def _content(action: Action) -> tuple[tuple[Param, ...], bool, Type, str]:
    return action.params, action.variadic, action.returns, action.doc


RULE = Rule("PRL208", "clashing-declaration", ERROR, __doc__, plan=check)
