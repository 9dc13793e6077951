"""A quoted text that goes on after its closing quote.

What it does
    Reports words that follow a quoted text where a comma or ``)`` should:
    mostly a text with quotes of its own inside.

Why
    A quote mark inside a text ends it, unless it is written ``\\"``.

Example
    1. a = FIND_MEANING(CTX, "the word "home" in the letter") : Explain the word

Use instead
    1. a = FIND_MEANING(CTX, "the word \\"home\\" in the letter") : Explain the word

Fix
    None: where the text ends is the author's to say.
"""

from pearl.lint.rules.base import ERROR, Broken, Diagnostic, Rule, shorten


def explain(broken: Broken) -> Diagnostic | None:
    if broken.before != "STRING" or "_COMMA" not in broken.accepts:
        return None
    if broken.got in ("CLOSE", "_COMMA", "$END", "NOTE", "STRING"):
        return None
    rest = broken.rest
    return RULE(
        broken.at,
        f"The quoted text is over before {shorten(rest, 20)}.",
        help='Write quotes inside a text as \\", and put "," between arguments.',
    )


RULE = Rule("PRL110", "quote-inside-text", ERROR, __doc__, explain=explain)
