"""A line that calls nothing.

What it does
    Reports a line that is numbered like a step and holds no call, and a name
    that is given to something else than a call.

Why
    The author meant it as a step. Leaving it out in silence would answer
    another question than the plan does.

Example
    1. Identify who Ross is
    2. deal = FIND_OPINION(CTX, ross, "the sale") : Find his opinion of the sale

Use instead
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify who Ross is
    2. deal = FIND_OPINION(CTX, ross, "the sale") : Find his opinion of the sale

Fix
    None.
"""

import re

from pearl.lang.logical_lines import misspelt_return
from pearl.lint.rules.base import ERROR, Broken, Diagnostic, Rule, pattern, shorten

_NAMED = pattern(r"[`*\s]*\$?\w+[`*\s]*(?::=|=|←|<-|＝)")
_CALLED = pattern(r"[`*\s]*[^\W\d](?>(?:\w|\\_)*)[`*\s]*(?:[(（\[{]|[^\W\d]|\"|:)")


def explain(broken: Broken) -> Diagnostic | None:
    if broken.kind != "step":
        return None
    text = broken.text
    named = _NAMED.match(text)
    if named and not _CALLED.match(text, named.end()):
        return RULE(
            broken.span,
            f"{broken.name or shorten(text, 30)} calls no action.",
            help="Write name = ACTION(argument, …) : note; every step is one call.",
        )
    if broken.name or re.match(r"[`*\s]*\w+[`*\s]*(?:[(（\[{]|:?=)", text):
        return None
    names = misspelt_return(text)
    meant = f'"return {", ".join(names)}"' if names else "name = ACTION(argument, …) : note"
    return RULE(broken.span, f"{shorten(text, 50)} is not a step.", help=f"Write {meant}.")


RULE = Rule("PRL113", "not-a-step", ERROR, __doc__, explain=explain)
