"""Items that are counted or listed whatever their answer.

What it does
    Reports ``COUNT`` and ``KEYS`` of the pairs of a step that answers yes or no
    for each item.

Why
    ``each x`` gives every item with its answer, so the pairs are as many as the
    items. ``where x`` in its place gives the list of those with the answer yes
    (CommaQA, section 3.2: filter).

Example
    1. guests = FIND_ALL(CTX, "guests at the dinner") : List the guests
    2. late = CHECK_TRUE(CTX, "{each guests} came late") : Check whether this guest came late
    3. number = COUNT(late) : Count the guests who came late

Use instead
    1. guests = FIND_ALL(CTX, "guests at the dinner") : List the guests
    2. late = CHECK_TRUE(CTX, "{where guests} came late") : Check whether this guest came late
    3. number = COUNT(late) : Count the guests who came late

Fix
    None.
"""

from pearl.lang.ast import Builtin, Mode, Ref
from pearl.lint.rules.base import WARNING, Findings, PlanView, Rule

_VERBS = {"count": "counts", "keys": "lists"}


def check(view: PlanView) -> Findings:
    for index, (step, action) in enumerate(zip(view.plan.steps, view.actions, strict=True)):
        if not action or not isinstance(action.body, Builtin) or not step.args:
            continue
        verb, arg = _VERBS.get(action.body.function), step.args[0]
        if verb is None or not isinstance(arg, Ref) or arg.mode is not Mode.PLAIN:
            continue
        if help := view.filter_instead(arg.name, index):
            yield RULE(
                arg.span,
                f"{step.action} {verb} every item of {arg.name}, also those with the answer no.",
                help=f"{help} It needs no KEYS." if verb == "lists" else help,
                data={"name": arg.name},
            )


RULE = Rule("PRL411", "answers-not-kept", WARNING, __doc__, plan=check)
