"""A last line that was cut off.

What it does
    Reports a plan whose last line stops in the middle of a call.

Why
    The model reached its token limit: steps after this one are missing too,
    and the answer would be made of what happens to be there.

Example
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. deal = FIND_OPINION(CTX, ross, "Brown's acq

Use instead
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. deal = FIND_OPINION(CTX, ross, "Brown's acquisition of the magazine") : Find his view

Fix
    None: what was cut is not known.
"""

import re

from pearl.lang.logical_lines import QUOTES
from pearl.lint.rules.base import ERROR, Broken, Diagnostic, Rule, pattern
from pearl.lint.rules.names import lacks_argument

# A number alone, or the first letters of a name.
_STUMP = pattern(r"\W*(?:step\s*)?\d{1,3}\W*|[^\W\d]\w*\s*", re.IGNORECASE)
# The end of a call, after a text that is not closed: only its quote is missing.
_ENDED = pattern(r"[)）]\s*(?:[:：#]|$)")


def explain(broken: Broken) -> Diagnostic | None:
    if broken.kind != "step" or not broken.last or broken.got == "STEP":
        return None
    stump = _STUMP.fullmatch(broken.source.text, *broken.span)
    opened = not broken.got and broken.source.text[broken.at.start : broken.at.start + 1] in QUOTES
    ended = opened and _ENDED.search(broken.source.text, broken.at.start, broken.span.end)
    cut = broken.got == "$END" or (opened and not ended)
    if not stump and (not cut or ("_ASSIGN" in broken.accepts and not broken.name)):
        return None
    in_text = opened and not stump
    whole = "CLOSE" in broken.accepts and not lacks_argument(broken)
    first = "Close the text, write" if in_text else "Write"
    if whole and not opened:
        first = 'Add ")" if the call ends here; else write'
    return RULE(
        broken.span,
        f"The last line stops in the middle{' of a text' if in_text else ''}.",
        help=f"{first} this step to its end, and the steps after it. A model may need a higher "
        "token limit.",
    )


RULE = Rule("PRL106", "truncated-line", ERROR, __doc__, explain=explain)
