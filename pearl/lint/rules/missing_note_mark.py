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
    Safe: puts the colon in, unless another call follows.
"""

from pearl.lint.rules.base import ERROR, Broken, Diagnostic, Edit, Fix, Rule, Span, pattern, shorten

_CALL = pattern(r"=\s*\w+\s*\(")


def explain(broken: Broken) -> Diagnostic | None:
    after = broken.kind == "step" and broken.before in ("CLOSE", "NOTE")
    if not after or broken.got == "CLOSE":
        return None
    rest = broken.rest
    if _CALL.search(rest):
        return None
    plain = broken.before == "CLOSE" and broken.got == "NAME"
    at = broken.at.start
    return RULE(
        broken.at,
        f"{shorten(rest, 30)} follows the call without a colon.",
        help="Write ACTION(…) : note.",
        fix=Fix('put in ":"', (Edit(Span(at, at), ": "),)) if plain else None,
    )


RULE = Rule("PRL112", "missing-note-mark", ERROR, __doc__, explain=explain)
