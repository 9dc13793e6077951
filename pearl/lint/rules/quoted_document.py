"""The document's name in quotes.

What it does
    Reports the text ``"CTX"``, or "document", where an action takes the document.

Why
    In quotes it is a word, and the step would run without the document.

Example
    1. ross = FIND_CHARACTER("CTX", "Ross") : Identify Ross

Use instead
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross

Fix
    Safe: writes CTX without quotes.
"""

from pearl.lint.rules.base import DOCUMENT, ERROR, Findings, PlanView, Rule, mend
from pearl.lint.rules.names import CALLED


def check(view: PlanView) -> Findings:
    for index, place, arg in view.literals:
        name, action = str(arg.value).casefold(), view.actions[index]
        # For an unknown action, only CTX counts: another word may be what it is asked about.
        if name not in CALLED or (action is None and name != DOCUMENT.casefold()):
            continue
        for_document = place == 0
        if action and place < len(action.params):
            for_document = action.params[place].name == DOCUMENT
        if for_document:
            yield RULE(
                arg.span,
                f'"{arg.value}" is a text, and not the document.',
                help=f"Write {DOCUMENT} without quotes.",
                fix=mend(arg.span, DOCUMENT),
            )


RULE = Rule("PRL211", "quoted-document", ERROR, __doc__, plan=check)
