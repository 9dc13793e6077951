"""A name that two steps give to their outputs.

What it does
    Reports a step whose name an earlier step has, where a later one uses the name. Without such
    a use the reader numbers it, ``ross_2``.

Why
    The reference would mean one output or the other.

Example
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. ross = FIND_OPINION(CTX, ross, "the sale") : Find his opinion of the sale
    3. ans = CONCAT(ross, "the sale") : Put them together

Use instead
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. view = FIND_OPINION(CTX, ross, "the sale") : Find his opinion of the sale
    3. ans = CONCAT(view, "the sale") : Put them together

Fix
    None.
"""

from pearl.lint.rules.base import ERROR, Findings, Label, PlanView, Rule


def check(view: PlanView) -> Findings:
    if len(view.defined) == len(view.params) + len(view.plan.steps):
        return
    for index, step in enumerate(view.plan.steps):
        first = view.defined[step.name]
        if first < 0:
            yield RULE(
                step.name_span,
                f"{step.name} is already the name of a parameter.",
                help="Give this step another name, and use it in the steps that mean this one.",
                data={"name": step.name},
            )
        elif first != index:
            yield RULE(
                step.name_span,
                f"{step.name} is already the name of step {view.number(first)}.",
                help="Give this step another name, and use it in the steps that mean this one.",
                labels=(Label(view.plan.steps[first].name_span, "first defined here"),),
                data={"name": step.name, "defined": view.number(first)},
            )


RULE = Rule("PRL205", "redefined-variable", ERROR, __doc__, plan=check)
