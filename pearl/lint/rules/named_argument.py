"""An argument that is given by name.

What it does
    Reports ``X="Ross"`` and ``X: "Ross"`` inside a call.

Why
    Arguments are given by place. A name may stand at another place than its
    parameter has.

Example
    1. a = FIND_CHARACTER(CTX, X="Ross") : Identify Ross

Use instead
    1. a = FIND_CHARACTER(CTX, "Ross") : Identify Ross

Fix
    Unsafe: takes the name out and leaves the place.
"""

from __future__ import annotations

import re

from pearl.lang.ast import Broken
from pearl.lang.diagnostics import Diagnostic, Edit, Fix, Safety, Severity
from pearl.lang.source import Source, Span
from pearl.lint.rules.base import Rule, argument

_VALUE = re.compile(r"\s*(?:[\"'“\[\d]|\w+\s*[,)])[^()]*\)")


def explain(broken: Broken, source: Source) -> Diagnostic | None:
    text, at = source.text, broken.at.start
    keyed = broken.got == "NOTE" and broken.before == "STRING" and text[at] in ":："
    if keyed and _VALUE.match(text, at + 1, broken.span.end):
        return _keyed(broken, source)
    named = broken.got == "_ASSIGN" or (broken.got == "NOTE" and text[at] in ":：")
    if not named or broken.before != "NAME" or "_COMMA" not in broken.accepts:
        return None
    if broken.got == "NOTE" and ")" not in text[at : broken.span.end]:
        return None
    start = len(text[:at].rstrip())
    while start > 0 and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    name = text[start:at].strip()
    end = at + len(text[at:]) - len(text[at:].lstrip(":=： \t"))
    return RULE(
        Span(start, end),
        f"The argument is given by name ({name}).",
        help="Give arguments by place, without names.",
        data={"parameter": name},
        fix=Fix("take the name out", (Edit(Span(start, end), ""),), Safety.UNSAFE),
    )


def _keyed(broken: Broken, source: Source) -> Diagnostic:
    span = argument(broken, source)
    key = Span(span.start, broken.at.start)
    return RULE(
        key,
        f"The argument is given by name ({source.at(key).strip()}).",
        help="Give arguments by place, without names.",
        data={"parameter": source.at(key).strip().strip("\"'")},
    )


RULE = Rule("PRL108", "named-argument", Severity.ERROR, __doc__, explain=explain)
