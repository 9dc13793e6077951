"""A parameter that its definition never mentions.

What it does
    Reports a parameter other than ``CTX`` whose name does not occur in the
    action's definition.

Why
    The model gets the argument's value under that name, and is not told what
    to do with it.

Example
    FIND_HABIT(CTX, X, Y) : Find what X does every day in CTX.

Use instead
    FIND_HABIT(CTX, X, Y) : Find what X does every day, in the time Y, in CTX.

Fix
    None.
"""

import re

from pearl.lint.rules.base import DOCUMENT, WARNING, Findings, LibraryView, Rule


def check(view: LibraryView) -> Findings:
    for action in view.actions:
        if not action.doc or action.variadic:
            continue
        words = set(re.findall(r"\w+", action.doc))
        for param in action.params:
            if param.name != DOCUMENT and param.name not in words:
                yield RULE(
                    action.span,
                    f"{action.name}'s definition never mentions {param.name}.",
                    help=f"Say what {param.name} is for, or take it out.",
                    data={"action": action.name, "parameter": param.name},
                )


RULE = Rule("PRL503", "unmentioned-parameter", WARNING, __doc__, library=check)
