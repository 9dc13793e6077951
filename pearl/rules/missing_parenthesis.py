"""A parenthesis that is missing, or one too many.

What it does
    Reports a call that does not open, does not close, or closes twice.

Why
    The parentheses say what is an argument and what is the note.

Example
    1. a = FIND_CHARACTER(CTX, "Ross" : Identify Ross
    2. b = FIND_CHARACTER(CTX, "Mara") : Identify Mara

Use instead
    1. a = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. b = FIND_CHARACTER(CTX, "Mara") : Identify Mara

Fix
    Safe: puts in the parenthesis before the note, or takes out the second one.
"""

from __future__ import annotations

from pearl.diagnostics import Diagnostic, Edit, Fix, Severity
from pearl.rules.base import Rule
from pearl.source import Source, Span
from pearl.syntax import Broken


def explain(broken: Broken, source: Source) -> Diagnostic | None:
    at = broken.at.start
    if "CLOSE" in broken.accepts and broken.got == "NOTE" and source.text[at] in ":：#":
        end = len(source.text[:at].rstrip())
        fix = Fix('put in ")"', (Edit(Span(end, end), ")"),))
        return RULE(broken.at, 'The call has no ")" before its note.', help='Add ")".', fix=fix)
    if "CLOSE" in broken.accepts and broken.got == "$END":
        return RULE(broken.at, 'The call has no ")" at its end.', help='Add ")" and the note.')
    if broken.got == "CLOSE" and broken.before == "CLOSE":
        fix = Fix('take out ")"', (Edit(Span(at, at + 1), ""),))
        return RULE(broken.at, 'There is one ")" too many.', help='Take out ")".', fix=fix)
    if broken.accepts == {"_OPEN"} and broken.got in ("NAME", "STRING", "NUMBER", "CLOSE"):
        return RULE(
            broken.at,
            'The action\'s name is not followed by "(".',
            help="Write the call as ACTION(argument, …).",
        )
    return None


RULE = Rule("PRL103", "missing-parenthesis", Severity.ERROR, __doc__, explain=explain)
