"""The document's name in quotes.

What it does
    Reports the text ``"CTX"``, or "document", or a file's name such as ``"lease.docx"``, where an
    action takes the document.

Why
    In quotes it is a word, and the step would run without the document.

Example
    1. ross = FIND_CHARACTER("CTX", "Ross") : Identify Ross

Use instead
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross

Fix
    Safe: writes CTX without quotes. None for a file's name, which may mean one of several
    documents.
"""

import re

from pearl.lang.builtins import is_label
from pearl.lang.text import pattern
from pearl.lang.values import Value
from pearl.lint.rules.base import DOCUMENT, ERROR, Findings, PlanView, Rule, mend
from pearl.lint.rules.names import CALLED

FILE = pattern(r"\S(?:.*\S)?\.(?:docx|epub|html?|md|pdf|txt|xhtml)", re.IGNORECASE)
"""A text that looks like the name of a document's file."""


def check(view: PlanView) -> Findings:
    for index, place, arg in view.literals:
        name, action = str(arg.value).casefold(), view.actions[index]
        wrong = f'"{arg.value}" is a text, and not the document.'
        if not _for_document(view, index, place):
            continue
        if names_file(arg.value):
            own = f'"{DOCUMENT}.{arg.value}"'
            help = f"It looks like a document's name. Where there are several, write {own}"
            yield RULE(arg.span, wrong, help=f"{help}, and where there is one, {DOCUMENT}.")
        # For an unknown action, only CTX counts: another word may be what it is asked about.
        elif name in CALLED and (action or name == DOCUMENT.casefold()):
            help = f"Write {DOCUMENT} without quotes."
            yield RULE(arg.span, wrong, help=help, fix=mend(arg.span, DOCUMENT))


def _for_document(view: PlanView, index: int, place: int) -> bool:
    """Whether a step's argument stands where its action takes the document."""
    action = view.actions[index]
    if action and place < len(action.params):
        return action.params[place].name == DOCUMENT
    return place == 0


def names_file(value: Value) -> bool:
    """Whether a text that a plan writes looks like a document's name, without ``CTX``."""
    return isinstance(value, str) and not is_label(value) and bool(FILE.fullmatch(value))


def names_document(view: PlanView) -> bool:
    """Whether some step has such a name where its action takes the document."""
    return any(
        names_file(arg.value) and _for_document(view, index, place)
        for index, place, arg in view.literals
    )


RULE = Rule("PRL211", "quoted-document", ERROR, __doc__, plan=check)
