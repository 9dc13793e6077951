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

from pearl.lang.values import Type
from pearl.lint.rules.base import WARNING, Action, Findings, Label, LibraryView, Rule

CUTOFF = 95.0

MOST = 1000
"""Actions above it that one is compared with, at most: the nearest."""


def check(view: LibraryView) -> Findings:
    from rapidfuzz import fuzz, process, utils

    # Actions that differ in their number of parameters or their type are not taken for each other.
    like: dict[tuple[int, Type], list[tuple[str, Action]]] = {}
    for action in view.actions:
        if not action.doc:
            continue
        words = " ".join(sorted(utils.default_process(action.doc).split()))
        others = like.setdefault((len(action.params), action.returns), [])
        compared = others[-MOST:]
        near = process.extractOne(
            words, [doc for doc, _ in compared], scorer=fuzz.ratio, score_cutoff=CUTOFF
        )
        others.append((words, action))
        if not near:
            continue
        first = compared[near[2]][1]
        yield RULE(
            action.span,
            f"{action.name} and {first.name} have nearly the same definition.",
            help="Keep one (as an alias of the other), or say how they differ.",
            labels=(Label(first.span, "the other one"),),
            data={"action": action.name, "other": first.name},
        )


RULE = Rule("PRL504", "similar-definitions", WARNING, __doc__, library=check)
