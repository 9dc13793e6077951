"""Two steps that are the same call with the same note.

What it does
    Reports a step identical in action, arguments and note to an earlier one.

Why
    The model is asked, and paid, twice for one answer. Steps that differ in
    their note are different questions and are not reported.

Example
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. him = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    3. ans = CONCAT(ross, him) : Combine them

Use instead
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross

Fix
    None.
"""

from collections import Counter

from pearl.lang.printer import print_arg
from pearl.lint.rules.base import WARNING, Findings, Label, PlanView, Rule


def check(view: PlanView) -> Findings:
    steps = view.plan.steps
    firsts: dict[tuple[str, str, tuple[str, ...]], int] = {}
    calls = Counter((step.action, step.note, len(step.args)) for step in steps)
    for index, step in enumerate(steps):
        if calls[step.action, step.note, len(step.args)] == 1:
            continue
        call = (step.action, step.note, tuple(print_arg(arg) for arg in step.args))
        first = firsts.setdefault(call, index)
        if first != index:
            yield RULE(
                step.span,
                f"{step.name} is the same step as {steps[first].name}.",
                help=f"Use {steps[first].name}, or say in the note what differs.",
                labels=(Label(steps[first].span, "first here"),),
                data={"name": step.name, "first": steps[first].name},
            )


RULE = Rule("PRL403", "duplicate-step", WARNING, __doc__, plan=check)
