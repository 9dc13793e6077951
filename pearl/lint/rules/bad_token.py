"""A character or word that cannot stand where it stands.

What it does
    Reports a line whose words are known but out of place, when no rule with a
    more precise message applies.

Why
    A line that is read by guessing may run as something nobody asked for.

Example
    1. a = FIND_CHARACTER(CTX, , "Ross") : Identify Ross

Use instead
    1. a = FIND_CHARACTER(CTX, "Ross") : Identify Ross

Fix
    None.
"""

from pearl.lint.rules.base import ERROR, Broken, Diagnostic, Rule, Span, shorten

_WORDS = {
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a quoted text",
    "MODE": "each or where",
    "NOTE": "a note",
    "TYPE": "a type (any, text, number, bool, list, pairs)",
    "DOC": "a definition",
    "ELLIPSIS": '"..."',
    "_ASSIGN": '"="',
    "_OPEN": '"("',
    "CLOSE": '")"',
    "_COMMA": '","',
    "LIST": '"["',
    "END": '"]"',
    "_ARROW": '"->"',
    "_OF": '":"',
    "$END": "the end of the line",
}


def explain(broken: Broken) -> Diagnostic:
    words = [_WORDS[kind] for kind in _WORDS if kind in broken.accepts]
    expected = " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
    at = broken.token.strip()
    token = at[:1] if broken.got in ("NOTE", "DOC") else shorten(at, 20)
    fact = f"{token} cannot stand here" if token else "the line ends too early"
    return RULE(
        Span(broken.at.start, broken.at.start + max(1, len(token))),
        f"{fact}.",
        help=f"Expected {expected}." if expected else "",
        data={"token": token, "expected": words},
    )


RULE = Rule("PRL101", "bad-token", ERROR, __doc__, explain=explain)
