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
    Unsafe: takes the name out and leaves the place; none where names such as X and
    Y stand in another order.
"""

from pearl.lang.ast import DOCUMENT, Broken
from pearl.lang.text import pattern
from pearl.lint.rules.base import ERROR, Diagnostic, Fix, Rule, Span, guess, word_start
from pearl.lint.rules.names import argument

_NAMED = pattern(rf"[(,]\s*({DOCUMENT}|[A-Z])\s*=")
_VALUE = pattern(r"\s*(?:[\"'“\[\d]|\w+\s*[,)])[^()]*\)")


def explain(broken: Broken) -> Diagnostic | None:
    text, at, end = broken.source.text, broken.at.start, broken.span.end
    noted = broken.got == "NOTE" and text[at] in ":："
    if noted and broken.before == "STRING" and _VALUE.match(text, at + 1, end):
        return _finding(Span(argument(broken).start, at), broken)
    if broken.before != "NAME" or "_COMMA" not in broken.accepts:
        return None
    if broken.got != "_ASSIGN" and not (noted and ")" in broken.rest):
        return None
    start = word_start(text, at)
    past = len(text) - len(text[at:].lstrip(":=： \t"))
    names = _NAMED.findall(text, broken.span.start, end)
    # In another order than the parameters', values without names would go to other parameters.
    others = names != sorted(names, key=lambda name: (name != DOCUMENT, name))
    fix = None if others else guess(Span(start, past), "", "take the name out")
    return _finding(Span(start, past), broken, fix)


def _finding(span: Span, broken: Broken, fix: Fix | None = None) -> Diagnostic:
    name = broken.source.text[span.start : broken.at.start].strip()
    return RULE(
        span,
        f"The argument is given by name ({name}).",
        help="Give arguments by place, without names.",
        data={"parameter": name.strip("\"'")},
        fix=fix,
    )


RULE = Rule("PRL108", "named-argument", ERROR, __doc__, explain=explain)
