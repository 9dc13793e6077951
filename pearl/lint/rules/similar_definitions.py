"""Two actions with nearly the same definition.

What it does
    Reports pairs of actions with as many parameters each and outputs of one type,
    whose definitions are at least 95 % the same words in any order, parameters aside.

Why
    The model picks one of them by chance, and plans for like questions stop
    being alike.

Example
    FIND_HABIT(CTX, X) : Find what X does every day in CTX.
    FIND_ROUTINE(CTX, X) : In CTX, find what X does every day.

Use instead
    FIND_HABIT(CTX, X) : Find what X does every day in CTX.

Fix
    None.
"""

from __future__ import annotations

from pearl.lang.ast import Action
from pearl.lang.diagnostics import Label, Severity
from pearl.lang.values import Type
from pearl.lint.rules.base import Findings, LibraryView, Rule

CUTOFF = 95.0


def check(view: LibraryView) -> Findings:
    from rapidfuzz import fuzz, process, utils

    actions = [action for action in view.actions if action.doc]
    docs = [utils.default_process(action.doc) for action in actions]
    for index, action in enumerate(actions):
        like = {at: docs[at] for at in range(index) if _used(actions[at]) == _used(action)}
        near = process.extractOne(
            docs[index], like, scorer=fuzz.token_sort_ratio, score_cutoff=CUTOFF
        )
        if not near:
            continue
        first = actions[near[2]]
        yield RULE(
            action.span,
            f"{action.name} and {first.name} have nearly the same definition.",
            help="Keep one (as an alias of the other), or say how they differ.",
            labels=(Label(first.span, "the other one"),),
            data={"action": action.name, "other": first.name},
        )


def _used(action: Action) -> tuple[int, Type]:
    """Actions that differ in this are not taken for each other."""
    return len(action.params), action.returns


RULE = Rule("PRL504", "similar-definitions", Severity.WARNING, __doc__, library=check)
