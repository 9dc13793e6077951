"""A note without its colon.

What it does
    Reports words that follow a call without ``:`` between.

Why
    What follows the call goes to the model as the step's note; without the
    mark it may as well be a second call.

Example
    1. a = FIND_CHARACTER(CTX, "Ross") Identify who Ross is

Use instead
    1. a = FIND_CHARACTER(CTX, "Ross") : Identify who Ross is

Fix
    Safe: puts the colon in, unless another call follows; takes out a comma before it.
"""

from itertools import accumulate

from pearl.lint.rules.base import ERROR, Broken, Diagnostic, Rule, Span, mend, pattern, shorten

_CALL = pattern(r"=\s*\w+\s*\(")


def explain(broken: Broken) -> Diagnostic | None:
    after = broken.kind == "step" and broken.before in ("CLOSE", "NOTE")
    if not after or broken.got == "CLOSE":
        return None
    rest = broken.rest
    if _CALL.search(rest):
        return None
    text, at = broken.source.text, broken.at.start
    if broken.before == "NOTE" and rest.startswith((":", "：")):
        mark = len(text[:at].rstrip()) - 1
        taken = mend(Span(mark, mark + 1), "", f'take out "{text[mark]}"')
        found = f'"{text[mark]}" stands between the call and its note.'
        return RULE(Span(mark, mark + 1), found, help=f'Take out "{text[mark]}".', fix=taken)
    # A bracket that is closed but not opened after the call shows that the call goes on.
    over = min(accumulate((mark == "(") - (mark == ")") for mark in rest), default=0) < 0
    plain = broken.before == "CLOSE" and broken.got == "NAME" and not over
    return RULE(
        broken.at,
        f"{shorten(rest, 30)} follows the call without a colon.",
        help=f"{'Take out the first ), or write' if over else 'Write'} ACTION(…) : note.",
        fix=mend(Span(at, at), ": ", 'put in ":"') if plain else None,
    )


RULE = Rule("PRL112", "missing-note-mark", ERROR, __doc__, explain=explain)
