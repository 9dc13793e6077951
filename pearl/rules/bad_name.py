"""A step's name that is no name.

What it does
    Reports names with spaces, hyphens, quotes or other marks, and ``:`` where
    ``=`` should stand.

Why
    A name is letters, digits and underscores, so that a reference to it can be
    told from text.

Example
    1. ross-brother = FIND_CHARACTER(CTX, "Ross's brother") : Identify him

Use instead
    1. ross_brother = FIND_CHARACTER(CTX, "Ross's brother") : Identify him

Fix
    None: references to the step would have to change too.
"""

from __future__ import annotations

import re

from pearl.diagnostics import Diagnostic, Severity
from pearl.rules.base import Rule, shown
from pearl.source import Source, Span
from pearl.syntax import Broken

_LEFT = re.compile(r"(?P<name>[^=\n(]+?)\s*(?::=|=|←|<-|:(?=\s*\w+\s*\())")


def explain(broken: Broken, source: Source) -> Diagnostic | None:
    if broken.kind != "step" or not (broken.accepts & {"_ASSIGN"} or broken.before == ""):
        return None
    left = _LEFT.match(source.text, broken.span.start, broken.span.end)
    if not left:
        return None
    name = left["name"].strip("*` ")
    if re.fullmatch(r"[^\W\d]\w*", name):
        return RULE(
            Span(left.end() - 1, left.end()),
            f'{name} is not followed by "=".',
            help=f"Write {name} = ACTION(…).",
        )
    better = re.sub(r"\W+", "_", name).strip("_").lower()
    better = f"step_{better}" if not better or better[0].isdigit() else better
    return RULE(
        Span(broken.span.start, left.end("name")),
        f"{shown(name)} cannot be a step's name.",
        help=f"Use letters, digits and underscores, for instance {shown(better)}.",
        data={"name": name, "candidates": [better]},
    )


RULE = Rule("PRL111", "bad-name", Severity.ERROR, __doc__, explain=explain)
