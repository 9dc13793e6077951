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

from collections.abc import Collection
from dataclasses import replace

from pearl.lang.library import Library, builtins, library_actions, library_source
from pearl.lang.source import shipped_actions
from pearl.lint.rules.base import (
    ERROR,
    Action,
    Diagnostic,
    Findings,
    PlanView,
    Rule,
    closest,
    mend,
)

MOST = 100_000
"""Names that an unknown one is compared with, at most; with many unknown ones fewer."""

_CALLS = ("PRL104", "PRL105")
"""Rules of lines that cannot be read, which say what action is called in them."""

_FEW = 8
"""Actions of a library, beside the builtins, of which all are named where none is close."""


def check(view: PlanView) -> Findings:
    library = view.library
    unknown = [
        step
        for step in view.plan.steps
        if not library.get(step.action) and step.action not in view.broken_names
    ]
    if not unknown:
        return
    names = list(library.every_name())
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(name.casefold(), []).append(name)
    replaced: dict[str, Action] = {}
    for action in library.actions.values():
        for old in action.replaces:
            replaced.setdefault(old.name, action)
    compared: dict[str, list[str]] = {}
    few = _all_of_few(library)
    own = "define it in the library" if view.action else 'declare yours under "New actions:"'
    for step in unknown:
        same = alike.get(step.action.casefold(), [])
        if not same and step.action not in compared:
            compared[step.action] = closest(step.action, names[: MOST // (len(compared) + 1)])
        similar = [near for name in same or compared[step.action] if (near := library.get(name))]
        close = list(dict.fromkeys(action.signature for action in similar))
        now = replaced[step.action].signature if step.action in replaced else ""
        if view.action and (home := _home(step.action)):
            help = f"The library {home} has it: name that too, as --library {home}, or {own}."
        elif now:
            help = f"{now} stands for it now: pearl migrate rewrites the plan."
        elif close:
            help = f"Closest: {'; '.join(close)}. Use one, or {own}."
        else:
            use = "; ".join(few) or "an action of the library"
            help = f"Use {use}, or {own}."
        yield RULE(
            step.action_span,
            f"{step.action} does not exist.",
            help=help,
            data={"action": step.action, "candidates": close},
            fix=mend(step.action_span, same[0]) if len(same) == 1 else None,
        )


def with_absence(finding: Diagnostic, view: PlanView, told: Collection[str]) -> Diagnostic:
    """What is said of a line that cannot be read; and where the call in it is of no action there
    is, that: who mends the line would call it again. ``told`` has the names that this is said of
    already."""
    name = str(finding.data.get("action", ""))
    known = name in (*told, *view.broken_names) or view.library.get(name)
    if known or finding.code not in _CALLS:
        return finding
    near = (view.library.get(each) for each in closest(name, view.library.every_name()))
    close = "; ".join(dict.fromkeys(action.signature for action in near if action))
    absence = f"{name} does not exist{f'; closest: {close}' if close else ''}."
    return replace(finding, help=f"{finding.help} {absence}".lstrip())


def _home(name: str) -> str:
    """The library of those that ship which has an action; empty for none."""
    libraries = ((each, library_actions(library_source(each))) for each in shipped_actions())
    return next((each for each, own in libraries if any(a.name == name for a in own)), "")


def _all_of_few(library: Library) -> list[str]:
    """The actions of a small library as they are called; none of a larger one."""
    own = [action.signature for action in library.listed if action.name not in builtins()]
    return own if len(own) <= _FEW else []


RULE = Rule("PRL201", "unknown-action", ERROR, __doc__, plan=check)
