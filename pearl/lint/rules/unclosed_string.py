"""A text whose closing quote is missing.

What it does
    Reports a quoted text that does not end on its line.

Why
    Where the text ends decides which arguments the step has.

Example
    1. a = FIND_CHARACTER(CTX, "Ross) : Identify Ross
    2. b = FIND_RELATION(CTX, a, "Mara") : Find how the two stand to each other

Use instead
    1. a = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. b = FIND_RELATION(CTX, a, "Mara") : Find how the two stand to each other

Fix
    None: there may be several places for the quote.
"""

from pearl.lang.logical_lines import QUOTES
from pearl.lint.rules.base import ERROR, Broken, Diagnostic, Rule, Span, shorten

_CLOSING = dict(zip("“„«「‘‹『‚", "””»」’›』‘", strict=True))


def explain(broken: Broken) -> Diagnostic | None:
    at = broken.at.start
    if broken.got or broken.source.text[at : at + 1] not in tuple(QUOTES):
        return None
    rest = broken.rest
    return RULE(
        Span(at, broken.span.end),
        f"The text that starts with {shorten(rest, 24)} is not closed.",
        help=f"Close it with {_CLOSING.get(rest[0], rest[0])} where it ends.",
        data={"quote": rest[0]},
    )


RULE = Rule("PRL102", "unclosed-string", ERROR, __doc__, explain=explain)
