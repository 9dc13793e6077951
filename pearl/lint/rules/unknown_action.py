"""An action that neither the library nor the plan has.

What it does
    Reports a call of an action that is not in the library and not declared
    under ``New actions:`` in this plan. Declarations of other plans do not
    count.

Why
    Without a definition the model would have to guess what the step is for.

Example
    1. tie = FIND_RELATIONS_OF(CTX, "Ross", "Mara") : Find how they stand to each other

Use instead
    1. tie = FIND_RELATION(CTX, "Ross", "Mara") : Find how they stand to each other

Fix
    Safe where only the case of letters differs from one action; otherwise none.
"""

from __future__ import annotations

from pearl.lang.diagnostics import Edit, Fix, Severity
from pearl.lang.library import Library
from pearl.lint.rules.base import Findings, PlanView, Rule, closest


def check(view: PlanView) -> Findings:
    library = view.library
    for step in view.plan.steps:
        if library.get(step.action) or step.action in view.broken_names:
            continue
        names = list(library.every_name())
        same = [name for name in names if name.casefold() == step.action.casefold()]
        near = same or closest(step.action, names)
        known = [action for name in near if (action := library.get(name))]
        close = list(dict.fromkeys(action.signature for action in known))
        now = _replaced_by(step.action, library)
        if now:
            help = f"{now} stands for it now: pearl migrate rewrites the plan."
        elif close:
            help = f'Closest: {"; ".join(close)}. Use one, or declare yours under "New actions:".'
        else:
            help = 'Use an action of the library, or declare yours under "New actions:".'
        yield RULE(
            step.action_span,
            f"{step.action} does not exist.",
            help=help,
            data={"action": step.action, "candidates": close},
            fix=Fix(f"write {same[0]}", (Edit(step.action_span, same[0]),))
            if len(same) == 1
            else None,
        )


def _replaced_by(name: str, library: Library) -> str:
    """The action that a library has in the place of an older one; empty where it has none."""
    for action in library.actions.values():
        if any(old.name == name for old in action.replaces):
            return action.signature
    return ""


RULE = Rule("PRL201", "unknown-action", Severity.ERROR, __doc__, plan=check)
