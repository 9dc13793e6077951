"""``each`` or ``where`` in a wording or at a place that the language does not have.

What it does
    Reports ``for each x``, ``each of x``, ``every x``, ``each(x)`` and the like,
    and a mode before a text.

Why
    A mode is the one word before the name: ``each x`` or ``where x``, or
    ``"all of {each x}"`` inside a text.

Example
    1. people = FIND_ALL(CTX, "people") : List the people
    2. ties = FIND_RELATION(CTX, for each people, "Mara") : Find how they stand

Use instead
    1. people = FIND_ALL(CTX, "people") : List the people
    2. ties = FIND_RELATION(CTX, each people, "Mara") : Find how they stand

Fix
    Safe: writes ``each x`` or ``where x``; before a text, where one step is named in it.
"""

import re

from pearl.lang.text import pattern, shorten
from pearl.lint.rules.base import DOCUMENT, ERROR, SEVERAL, Broken, Diagnostic, Rule, Span, mend
from pearl.lint.rules.names import argument, names_above

_EACH = pattern(
    r"(?:(?:for\s+)?(?:each|every|all|any)(?:\s+(?:one|item))?\s+(?:of|in)(?:\s+the)?\s+"
    r"|for\s+(?:each|every|all)\s+|every\s+|each(?:\s*[(=]|:)\s*)(?P<name>[^\W\d]\w*)\s*\)?",
    re.IGNORECASE,
)
# A colon behind a space begins the note.
_WHERE = pattern(r"where(?:\s*[(=]|:)\s*(?P<name>[^\W\d]\w*)\s*\)?", re.IGNORECASE)
_MODE = pattern(r"((?:each|where)(?:\s+values)?|evidence)\s+", re.IGNORECASE)
_INSIDE = pattern(r"\{\s*([^\W\d]\w*)\s*\}")


def explain(broken: Broken) -> Diagnostic | None:
    if broken.kind != "step" or broken.before not in ("NAME", "MODE"):
        return None
    span = argument(broken)
    if broken.got == "STRING":
        return _before_text(broken, Span(span.start, broken.at.end))
    text = broken.source.at(span)
    for mode, form in (("each", _EACH), ("where", _WHERE)):
        if match := form.fullmatch(text):
            ref = f"{mode} {match['name']}"
            return RULE(
                span,
                f"{text} is no mode.",
                help=f"Write {ref}.",
                data={"text": text, "name": match["name"]},
                fix=mend(span, ref),
            )
    return None


def _before_text(broken: Broken, span: Span) -> Diagnostic | None:
    match, names = _MODE.match(broken.source.at(span)), names_above(broken)
    if not match or match.end() != broken.at.start - span.start or match[1] in names:
        return None
    mode, inside = match[1].lower(), {*_INSIDE.findall(broken.token)}
    help = f'Write it before a name, in braces too: "… {{{mode} x}} …".'
    if mode != "evidence" and broken.token.strip('"').casefold() in SEVERAL:
        help = (
            f"Several documents are listed by docs = DOCUMENTS({DOCUMENT}); here write {mode} docs."
        )
    fix = None
    if len(inside) == 1 and inside <= names - {DOCUMENT}:
        text = _INSIDE.sub(rf"{{{mode} \1}}", broken.token)
        help = f"Write {shorten(text)}."
        fix = mend(span, text, f"write {{{mode} {inside.pop()}}}")
    return RULE(span, f"{mode} stands before a text.", help=help, fix=fix)


RULE = Rule("PRL121", "bad-mode", ERROR, __doc__, explain=explain)
