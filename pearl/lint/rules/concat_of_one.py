"""CONCAT of a single thing.

What it does
    Reports ``CONCAT(x)``.

Why
    It changes nothing, and hides which step the answer is.

Example
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. ans = CONCAT(ross) : The final answer

Use instead
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross

Fix
    Safe, where nothing uses the CONCAT and x is used by nothing else: takes
    the line out. The answer is then x, which is the same text.
"""

from pearl.lang.ast import Mode, Ref, Step
from pearl.lint.rules.base import WARNING, Findings, Fix, PlanView, Rule, Span, mend


def check(view: PlanView) -> Findings:
    for index, step in enumerate(view.plan.steps):
        if step.action != "CONCAT" or len(step.args) != 1:
            continue
        yield RULE(
            step.span,
            "CONCAT of one thing is that thing.",
            help="Take the step out, and use its argument.",
            data={"name": step.name},
            fix=_fix(view, index, step),
        )


def _fix(view: PlanView, index: int, step: Step) -> Fix | None:
    arg = step.args[0]
    last = index == len(view.plan.steps) - 1
    if not last or not isinstance(arg, Ref) or arg.mode is not Mode.PLAIN:
        return None
    source = view.defined.get(arg.name)
    if view.plan.returns or source is None or len(view.uses[arg.name]) > 1 or step.comments:
        return None
    if view.broken or "\n" in view.source.at(step.span):
        return None  # What a line that cannot be read uses is not known; it may stand in the note.
    # The answer keeps its order only if no other unused output stands between.
    between = view.plan.steps[source + 1 : index]
    if any(other.name not in view.uses for other in between):
        return None
    text = view.source.text
    start = text.rfind("\n", 0, step.span.start) + 1
    following = text.find("\n", step.span.end)
    end = following + 1 if following >= 0 else len(text)
    return mend(Span(start, end), "", "take the step out")


RULE = Rule("PRL404", "concat-of-one", WARNING, __doc__, plan=check)
