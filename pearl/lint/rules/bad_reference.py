"""A reference in a form that the language does not have.

What it does
    Reports ``$1``, ``@1``, ``<ross>``, ``@ross``, ``ross.name``, ``ross[0]``
    and the like, where an argument should stand.

Why
    An earlier output is reached by its step's name or number (``#1``), as a whole. Its parts are
    found by a step of their own.

Example
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. view = FIND_OPINION(CTX, <ross>, "the sale") : Find his opinion

Use instead
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. view = FIND_OPINION(CTX, ross, "the sale") : Find his opinion

Fix
    Safe: puts one of several documents in quotes (``CTX.lease``) where it is the first argument, as
    the document is. Unsafe: writes the bare name where there is one inside the marks, and the name
    that a part nearly is (``ross.name`` beside ``ross_name``).
"""

import re

from pearl.lang.ast import DOCUMENT, Broken
from pearl.lint.rules.base import ERROR, Diagnostic, Fix, Rule, Span, guess, mend, pattern, trimmed
from pearl.lint.rules.names import PART, argument, meant, names_above, near_above, nearest, part_of

_NUMBER = pattern(r"[#$@](\d{1,2})|step[ _]?(?:number[ ])?#?(\d{1,2})", re.IGNORECASE)
_MARKED = pattern(
    r"<\s*(?P<angle>[^\W\d]\w*)\s*>|%(?P<percent>[^\W\d]\w*)%?|[@&*]+(?P<sign>[^\W\d]\w*)"
    r"|\$\{(?P<shell>[^\W\d]\w*)\}|\{\{\s*(?P<double>[^\W\d]\w*)\s*\}\}"
)
_ONE = pattern(rf"{DOCUMENT}\.[^\s\"\\(){{}}\[\],]+")
"""One of several documents, without quotes."""

_CALL = pattern(r"=[ \t]*\w+[ \t]*\(")
_MEANT = "Write the name of the step that is meant."


def explain(broken: Broken) -> Diagnostic | None:
    if broken.kind != "step":
        return None
    if broken.accepts == {"_OPEN"}:
        # The text in a call's place may be a part of a step's output.
        span = trimmed(
            broken.source.text, broken.source.text.find("=", broken.span.start) + 1, broken.span.end
        )
        part = PART.match(broken.source.at(span))
        if not part or part["name"] not in names_above(broken):
            return None
        span = Span(span.start, span.start + part.end())
    elif broken.before in ("_OPEN", "_COMMA", "LIST", "NAME"):
        span = argument(broken)
    else:
        return None
    text = broken.source.at(span)

    def no_reference(help: str, fix: Fix | None = None, **data: str) -> Diagnostic:
        message = f"{text} is no reference."
        return RULE(span, message, help=help, data={"text": text, **data}, fix=fix)

    numbered = _NUMBER.fullmatch(text)
    head = broken.source.text[max(0, broken.span.start - 4000) : broken.span.start]
    if numbered and (text[0] != "$" or int(numbered[1]) <= len(_CALL.findall(head))):
        return no_reference(_MEANT)
    if marked := _MARKED.fullmatch(text):
        name = next(group for group in marked.groups() if group)
        name = nearest(name, near_above(broken, name), word=False) or name
        help = f"If you mean the step, write {name}."
        return no_reference(help, guess(span, name), name=name)
    if _ONE.fullmatch(text):
        # Only a call's first argument is fixed: elsewhere the label would be an ordinary text.
        before = broken.source.text[broken.span.start : span.start].rstrip()
        return RULE(
            span,
            f"{text} has no quotes.",
            help=f"Write {DOCUMENT} for the whole, or find the part in a step of its own. "
            f'One of several documents stands in quotes: "{text}".',
            data={"text": text, "name": DOCUMENT},
            fix=mend(span, f'"{text}"') if before.endswith(("(", "（")) else None,
        )
    part = PART.fullmatch(text)
    if not part:
        return None
    name = part["name"]
    whole, near = meant(part, broken)
    if near or not whole:
        close = f"Closest: {', '.join([*near, whole] if whole else near)}. " if near else ""
        fix = guess(span, near[0]) if len(near) == 1 and not whole else None
        return no_reference(f"{close}{_MEANT}", fix, name=name)
    return part_of(RULE, span, text, name, whole)


RULE = Rule("PRL120", "bad-reference", ERROR, __doc__, explain=explain)
