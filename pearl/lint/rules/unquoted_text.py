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

from __future__ import annotations

import re

from pearl.lang.ast import Broken
from pearl.lang.diagnostics import Diagnostic, Edit, Fix, Safety, Severity
from pearl.lang.source import Source, Span
from pearl.lang.text import shorten
from pearl.lint.rules.base import Rule

_WORDS = re.compile(r"[^\"(),\[\]=]+")


def explain(broken: Broken, source: Source) -> Diagnostic | None:
    if broken.kind != "step" or "_COMMA" not in broken.accepts:
        return None
    if broken.before not in ("NAME", "NUMBER", "STRING"):
        return None
    if broken.got in ("CLOSE", "_ASSIGN", "_OPEN", "$END", "LIST"):
        return None
    text, at = source.text, broken.at.start
    if broken.got == "STRING" or text[at : at + 1] == ";":
        return RULE(
            broken.at, "Two arguments have no comma between them.", help='Put "," between them.'
        )
    if broken.before == "STRING":
        return None
    if broken.got == "NOTE" and text[at] in ":：#":
        return None
    start = max(text.rfind(mark, broken.span.start, at) for mark in "(,[") + 1
    start += len(text[start:]) - len(text[start:].lstrip())
    words = _WORDS.match(text, start, broken.span.end)
    end = len(text[: words.end()].rstrip()) if words else at
    closed = text[words.end() : words.end() + 1] in (",", ")") if words else False
    quoted = text[start:end].replace("\\", "\\\\")
    return RULE(
        Span(start, end),
        f"{shorten(text[start:end])} is not quoted.",
        help=f'If you mean the words, write "{shorten(text[start:end])}".',
        data={"text": text[start:end]},
        fix=Fix("quote the words", (Edit(Span(start, end), f'"{quoted}"'),), Safety.UNSAFE)
        if closed and "\n" not in quoted
        else None,
    )


RULE = Rule("PRL109", "unquoted-text", Severity.ERROR, __doc__, explain=explain)
