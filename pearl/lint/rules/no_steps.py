"""A text without a step.

What it does
    Reports a plan in which nothing was meant as a step.

Why
    There is nothing to run, and an empty answer looks like one.

Example
    I am sorry, but I cannot write a plan for this question.

Use instead
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross

Fix
    None.
"""

from pearl.lint.rules.base import ERROR, Findings, PlanView, Rule, Span


def check(view: PlanView) -> Findings:
    if view.plan.steps or any(line.kind == "step" for line in view.broken):
        return
    yield RULE(
        Span(0, min(1, len(view.source.text))),
        "There is no step.",
        help="Write at least one line: name = ACTION(argument, …) : note.",
    )


RULE = Rule("PRL115", "no-steps", ERROR, __doc__, plan=check)
