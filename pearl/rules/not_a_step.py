"""A numbered line that calls nothing.

What it does
    Reports a line that is numbered like a step and holds no call.

Why
    The author meant it as a step. Leaving it out in silence would answer
    another question than the plan does.

Example
    1. Identify who Ross is
    2. deal = FIND_EVENT(CTX, "the sale") : Find the sale

Use instead
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify who Ross is
    2. deal = FIND_EVENT(CTX, "the sale") : Find the sale

Fix
    None.
"""

from __future__ import annotations

import re

from pearl.diagnostics import Diagnostic, Severity
from pearl.rules.base import Rule, shown
from pearl.source import Source
from pearl.syntax import Broken


def explain(broken: Broken, source: Source) -> Diagnostic | None:
    if broken.kind != "step" or broken.name:
        return None
    text = source.at(broken.span)
    if re.match(r"[`*\s]*\w+[`*\s]*(?:[(（\[{]|:?=)", text):
        return None
    return RULE(
        broken.span,
        f"{shown(text, 50)} is not a step.",
        help="Write name = ACTION(argument, …) : note.",
    )


RULE = Rule("PRL113", "not-a-step", Severity.ERROR, __doc__, explain=explain)
