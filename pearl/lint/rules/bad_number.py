"""Digits that are no number.

What it does
    Reports ``1,000``, ``3rd``, ``50%``, ``12:30`` and the like as arguments, and numbers
    beyond 1.8e308.

Why
    A number is digits with at most one point. Read in pieces, ``1,000`` would
    be two arguments.

Example
    1. a = FIND_EVENT(CTX, 1,000) : Find what costs so much

Use instead
    1. a = FIND_EVENT(CTX, "1,000") : Find what costs so much

Fix
    Unsafe: quotes the digits, with the words behind them.
"""

from pearl.lint.rules.base import ERROR, Broken, Diagnostic, Rule, Span, guess, pattern
from pearl.lint.rules.names import bad_name_above

_DIGITS = pattern(
    r"[$€£+-]?\.?\d(?:[\w.%/:+-]|,(?=\d{3}(?!\w)))*"
    r"(?>(?:[ \t]+[^\s\"\\(),=:\[\]{}#（），：]+)*)"  # the words behind them
)
MOST_SHOWN = 40
"""Characters of the digits that a message shows, at most."""

_THOUSANDS = pattern(r"\d{1,3}(?:,\d{3})+")


def explain(broken: Broken) -> Diagnostic | None:
    if broken.kind != "step" or broken.before not in ("_OPEN", "_COMMA", "LIST"):
        return None
    match = _DIGITS.match(broken.source.text, broken.at.start, broken.span.end)
    if not match:
        return None
    text = match[0].rstrip(".:")
    span = Span(match.start(), match.start() + len(text))
    if named := bad_name_above(RULE, broken, span):
        return named
    shown = text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"
    quoted = f'"{shown}"'
    plain = f"{text.replace(',', '')} or " if _THOUSANDS.fullmatch(shown) else ""
    return RULE(
        span,
        f"{shown} is beyond 1.8e308." if broken.got == "NUMBER" else f"{shown} is no number.",
        help=f"Write {plain}{quoted}.",
        data={"text": text},
        fix=guess(span, f'"{text}"', "quote it"),
    )


RULE = Rule("PRL122", "bad-number", ERROR, __doc__, explain=explain)
