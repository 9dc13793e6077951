"""Square or curly brackets around arguments.

What it does
    Reports ``ACTION[…]`` and ``ACTION{…}``, and ``(…)`` and ``{…}`` for a list.

Why
    Square brackets make a list; a call has parentheses.

Example
    1. a = FIND_CHARACTER[CTX, "Ross"] : Identify Ross

Use instead
    1. a = FIND_CHARACTER(CTX, "Ross") : Identify Ross

Fix
    Safe: puts parentheses in their place.
"""

from pearl.lang.logical_lines import call_end
from pearl.lint.rules.base import ERROR, Broken, Diagnostic, Edit, Fix, Rule, Span

_PAIRS = {"[": "]", "【": "】", "{": "}"}


def explain(broken: Broken) -> Diagnostic | None:
    text, at = broken.source.text, broken.at.start
    opening = text[at : at + 1]
    if broken.kind != "step":
        return None
    if opening == "(" and broken.before in ("_OPEN", "_COMMA", "LIST"):
        return RULE(Span(at, at + 1), "A list opens with (.", help="Put a list in brackets [ ].")
    if broken.before == "_BRACE" and broken.got in ("STRING", "NUMBER"):
        at = text.rfind("{", broken.span.start, at)
        return RULE(Span(at, at + 1), "A list opens with {.", help="Put a list in brackets [ ].")
    if broken.accepts != {"_OPEN"} or opening not in _PAIRS:
        return None
    end = call_end(text, at, broken.span.end) if opening != "{" else -1
    fix = None
    if end > 0 and text[end - 1] == _PAIRS[opening]:
        edits = (Edit(Span(at, at + 1), "("), Edit(Span(end - 1, end), ")"))
        fix = Fix("use parentheses", edits)
    return RULE(
        Span(at, at + 1),
        f"The call opens with {opening}.",
        help="Put the arguments in parentheses ( ).",
        fix=fix,
    )


RULE = Rule("PRL117", "wrong-bracket", ERROR, __doc__, explain=explain)
