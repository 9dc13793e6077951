"""A step's name in braces in a note.

What it does
    Reports ``{name}`` in a note where it names an earlier step.

Why
    Only arguments are filled: whoever carries out the step reads the note as
    it stands, and is given nothing of what that step found.

Example
    1. days = FIND_ALL(CTX, "the days it took") : List the days
    2. sum = FIND_QUANTITY(CTX, "length of the journey") : Add up {days}

Use instead
    1. days = FIND_ALL(CTX, "the days it took") : List the days
    2. sum = FIND_QUANTITY(CTX, "length of the journey, of {days}") : Add up the days

Fix
    None: which argument is to hold it is the author's to say.
"""

from pearl.lint.rules.base import WARNING, Findings, PlanView, Rule, Span, pattern

_BRACES = pattern(r"\{\s*(?:[a-z]+\s+){0,2}(?P<name>[^\W\d]\w*)\s*\}")


def check(view: PlanView) -> Findings:
    for index, step in enumerate(view.plan.steps):
        if "{" not in step.note:
            continue
        # Arguments end before the note does, and may have the same words.
        start = view.source.text.find(":", max((arg.span.end for arg in step.args), default=0))
        for match in _BRACES.finditer(view.source.text, max(start, 0), step.span.end):
            if view.defined.get(match["name"], index) < index:
                yield RULE(
                    Span(*match.span()),
                    f"{match[0]} stands in a note, where nothing takes its place.",
                    help=f"Put it into a text among the arguments, or give {match['name']} itself.",
                    data={"name": match["name"]},
                )


RULE = Rule("PRL410", "reference-in-note", WARNING, __doc__, plan=check)
