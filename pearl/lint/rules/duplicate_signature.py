"""Two actions of one name in a library.

What it does
    Reports an action, or an alias, whose name stands twice in a file, and an
    action that has a builtin's name.

Why
    Only one of the definitions can be the one that plans get. A builtin stays
    what it is.

Example
    FIND_HABIT(CTX, X) : Find what X does every day in CTX.
    FIND_HABIT(CTX, X) : Find the customs of X in CTX.

Use instead
    FIND_HABIT(CTX, X) : Find what X does every day in CTX.
    FIND_CUSTOM(CTX, X) : Find the customs of X in CTX.

Fix
    None.
"""

from pearl.lang.library import builtins
from pearl.lint.rules.base import ERROR, Action, Findings, Label, LibraryView, Rule


def check(view: LibraryView) -> Findings:
    owners: dict[str, Action] = {}
    for action in view.actions:
        builtin = builtins().get(action.name)
        if builtin and (builtin.body, builtin.params) != (action.body, action.params):
            yield RULE(
                action.span,
                f"{action.name} is a builtin, {builtin.signature}, and stays one.",
                help="Give the action another name.",
                data={"action": action.name},
            )
        for name in (action.name, *action.aliases):
            first = owners.setdefault(name, action)
            if first is not action:
                yield RULE(
                    action.span if name == action.name else view.place(action, name),
                    f"{name} is already the name of {first.signature}.",
                    help="Keep one, or give one of them another name.",
                    labels=(Label(first.span, "first here"),),
                    data={"action": name},
                )


RULE = Rule("PRL501", "duplicate-signature", ERROR, __doc__, library=check)
