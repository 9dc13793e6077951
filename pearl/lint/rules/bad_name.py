"""A step's name that is no name.

What it does
    Reports names of steps and actions with spaces, hyphens, quotes or other
    marks, words the language keeps, and other signs where ``=`` should stand.

Why
    A name is letters, digits and underscores, so that a reference to it can be
    told from text.

Example
    1. ross-brother = FIND_CHARACTER(CTX, "Ross's brother") : Identify him

Use instead
    1. ross_brother = FIND_CHARACTER(CTX, "Ross's brother") : Identify him

Fix
    Safe for another sign in place of ``=``. For a name none: references to
    the step would have to change too.
"""

import re
from dataclasses import replace

from pearl.lang.ast import RESERVED
from pearl.lint.rules.base import ERROR, Broken, Diagnostic, Rule, Span, mend, pattern, shorten

_LEFT = pattern(
    r"(?P<name>[^=\n(]*?[^=\n(\s])\s*+(?P<sign>:=|==|\+=|<-|->|=>|→|=|←|＝|:(?=\s*[\w.]+\s*\())"
)
_ACTION = pattern(
    r"\s*(?P<name>(?P<quote>[\"']?)[`*]*[^\W\d][\w.\\ \t-]{0,60}?[`*]*(?P=quote))\s*[(（\[{]"
)
_CHAINED = pattern(r"\s*(?P<name>[^\W\d]\w*)\s*:?=\s*\w+\s*\(")
_BEFORE = pattern(r"(?:let|var|const|set)\s+")
_AFTER = pattern(r"(?P<name>[^\W\d]\w*)\s*:\s*\w+")


def explain(broken: Broken) -> Diagnostic | None:
    if broken.kind != "step":
        return None
    start, end = broken.span
    if broken.got == "RESERVED":
        return _bad(broken.at, broken)
    head = _LEFT.match(broken.source.text, start, end)
    if not head:
        return _nameless(broken)
    # The line fails in its arguments or note, past any name.
    if broken.at.start > head.end() and "(" in broken.source.text[head.end() : broken.at.start]:
        return None
    name = head["name"].strip("*` ")
    if not re.fullmatch(r"\$?[^\W\d](?:\w|\\_)*", name) or name == "return":
        return _bad(Span(start, head.end("name")), broken)
    if head["sign"] not in (":=", "=", "<-", "←", "＝"):
        gap = Span(head.end("name"), head.end())
        return RULE(
            Span(*head.span("sign")),
            f'{name} is not followed by "=".',
            help=f"Write {name} = ACTION(…).",
            fix=mend(gap, " =", 'write "="'),
        )
    if chained := _CHAINED.match(broken.source.text, head.end(), end):
        return RULE(
            Span(*chained.span("name")),
            f"The call has two names, {name} and {chained['name']}.",
            help=f"Write {name} = ACTION(…), and use {name} in later steps.",
        )
    action = _ACTION.match(broken.source.text, head.end(), end)
    if action and not re.fullmatch(r"[`*]*[^\W\d](?:\w|\\_)*[`*]*", action["name"]):
        return _bad_action(Span(*action.span("name")), broken)
    return None


def _nameless(broken: Broken) -> Diagnostic | None:
    if broken.source.text[broken.span.start : broken.span.start + 1] not in ("=", "←"):
        return None
    line = broken.source.text.rfind("\n", 0, broken.span.start) + 1
    head = broken.source.text[line : broken.span.start]
    span = Span(broken.span.start - len(head.lstrip()), broken.span.start)
    number = head.strip("*`()[]:.- ")
    if not number.isdecimal():
        return None
    return replace(_bad(span, broken), message=f"The step has a number, {number}, and no name.")


def _bad(span: Span, broken: Broken) -> Diagnostic:
    name = broken.source.at(span).strip("*` ")
    typed = _AFTER.fullmatch(name)
    better = typed["name"] if typed else _BEFORE.sub("", name)
    better = re.sub(r"\W+", "_", better).strip("_").lower()
    if not better or better[0].isdigit() or better in RESERVED:
        better = f"step_{better}".rstrip("_")
    return RULE(
        span,
        f"{shorten(name)} cannot be a step's name.",
        help=f"Use letters, digits and underscores, for instance {shorten(better)}.",
        data={"name": name, "candidates": [better]},
    )


def _bad_action(span: Span, broken: Broken) -> Diagnostic:
    name = broken.source.at(span)
    better = re.sub(r"^(?:await|new|call|run|self\.|\w+\.)\s*", "", name)
    better = re.sub(r"\W+", "_", better.strip("\"'`* ")).strip("_")
    return RULE(
        span,
        f"{shorten(name)} cannot be an action's name.",
        help=f"Write {shorten(better)}(…), if that is the action.",
        data={"name": name, "candidates": [better]},
    )


RULE = Rule("PRL111", "bad-name", ERROR, __doc__, explain=explain)
