"""Words that should be quoted, or arguments without a comma between them.

What it does
    Reports several words in a row where one argument should stand.

Why
    A single word is a reference to a step; text needs quotes.

Example
    1. a = FIND_EVENT(CTX, the sale of the magazine) : Find the sale

Use instead
    1. a = FIND_EVENT(CTX, "the sale of the magazine") : Find the sale

Fix
    Unsafe: quotes the words up to the next comma or parenthesis.
"""

from pearl.lang.text import pattern, shorten
from pearl.lint.rules.base import ERROR, Broken, Diagnostic, Edit, Fix, Rule, Safety, trimmed

_WORDS = pattern(r"[^\"(),\[\]=]+")


def explain(broken: Broken) -> Diagnostic | None:
    if broken.kind != "step" or "_COMMA" not in broken.accepts:
        return None
    if broken.before not in ("NAME", "NUMBER", "STRING"):
        return None
    if broken.got in ("CLOSE", "_ASSIGN", "_OPEN", "$END", "LIST"):
        return None
    text, at = broken.source.text, broken.at.start
    if broken.got == "STRING" or text[at : at + 1] == ";":
        return RULE(
            broken.at, "Two arguments have no comma between them.", help='Put "," between them.'
        )
    if broken.before == "STRING" or (broken.got == "NOTE" and text[at] in ":：#"):
        return None
    start = max(text.rfind(mark, broken.span.start, at) for mark in "(,[") + 1
    match = _WORDS.match(text, start, broken.span.end)
    span = trimmed(text, start, match.end() if match else at)
    words = broken.source.at(span)
    fix = None
    if match and text[match.end() : match.end() + 1] in (",", ")") and "\n" not in words:
        quoted = words.replace("\\", "\\\\")
        fix = Fix("quote the words", (Edit(span, f'"{quoted}"'),), Safety.UNSAFE)
    return RULE(
        span,
        f"{shorten(words)} is not quoted.",
        help=f'If you mean the words, write "{shorten(words)}".',
        data={"text": words},
        fix=fix,
    )


RULE = Rule("PRL109", "unquoted-text", ERROR, __doc__, explain=explain)
