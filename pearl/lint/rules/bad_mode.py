"""``each`` or ``where`` in a wording that the language does not have.

What it does
    Reports ``for each x``, ``each of x``, ``every x``, ``each(x)`` and the like.

Why
    A mode is the one word before the name: ``each x`` or ``where x``.

Example
    1. people = FIND_ALL(CTX, "people") : List the people
    2. ties = FIND_RELATION(CTX, for each people, "Mara") : Find how they stand

Use instead
    1. people = FIND_ALL(CTX, "people") : List the people
    2. ties = FIND_RELATION(CTX, each people, "Mara") : Find how they stand

Fix
    Safe: writes ``each x`` or ``where x``.
"""

import re

from pearl.lint.rules.base import ERROR, Broken, Diagnostic, Edit, Fix, Rule, argument, pattern

_EACH = pattern(
    r"(?:(?:for\s+)?(?:each|every|all|any)(?:\s+(?:one|item))?\s+(?:of|in)(?:\s+the)?\s+"
    r"|for\s+(?:each|every|all)\s+|every\s+|each\s*[(:=]\s*)(?P<name>[^\W\d]\w*)\s*\)?",
    re.IGNORECASE,
)
_WHERE = pattern(r"where\s*[(:=]\s*(?P<name>[^\W\d]\w*)\s*\)?", re.IGNORECASE)


def explain(broken: Broken) -> Diagnostic | None:
    if broken.kind != "step" or broken.before not in ("NAME", "MODE"):
        return None
    span = argument(broken)
    text = broken.source.at(span)
    for mode, form in (("each", _EACH), ("where", _WHERE)):
        match = form.fullmatch(text)
        if match:
            ref = f"{mode} {match['name']}"
            return RULE(
                span,
                f"{text} is no mode.",
                help=f"Write {ref}.",
                data={"text": text, "name": match["name"]},
                fix=Fix(f"write {ref}", (Edit(span, ref),)),
            )
    return None


RULE = Rule("PRL121", "bad-mode", ERROR, __doc__, explain=explain)
