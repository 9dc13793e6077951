"""Two steps on one line.

What it does
    Reports a second ``name = ACTION(…)`` after the first one's call.

Why
    A step ends with its line; what follows would become part of its note.

Example
    1. a = FIND_CHARACTER(CTX, "Ross"); b = FIND_RELATION(CTX, a, "Mara")

Use instead
    1. a = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. b = FIND_RELATION(CTX, a, "Mara") : Find how the two stand to each other

Fix
    Safe: puts the second step on its own line.
"""

from pearl.lint.rules.base import ERROR, Broken, Diagnostic, Rule, Span, mend, pattern

_NUMBER = pattern(r"(?:\s|;|\\n)*(?:\d{1,3}[.)]\s*)?\Z")
_OWN = pattern(r"\d+[.)]\s*\Z")
_NEXT = pattern(r"[;,.\s]*(?:(?:and|then|so)\s+)*(?:\d+[.)]\s*)?(?=\w+\s*:?=\s*\w+\s*\()")


def explain(broken: Broken) -> Diagnostic | None:
    if broken.kind != "step" or broken.before not in ("CLOSE", "NOTE"):
        return None
    text, (start, end), at = broken.source.text, broken.span, broken.at.start
    gap = _NEXT.match(text, text.rfind(")", start, at) + 1, end)
    if broken.got == "STEP":
        gap = _NUMBER.search(text, start, at)
    if not gap:
        return None
    # The second step keeps its number, as references such as #2 may mean it.
    number = _OWN.search(gap[0])
    return RULE(
        Span(gap.end(), end),
        "A second step stands on this line.",
        help="Write one step a line.",
        fix=mend(Span(*gap.span()), f"\n{number[0] if number else ''}", "start a new line"),
    )


RULE = Rule("PRL116", "two-steps-a-line", ERROR, __doc__, explain=explain)
