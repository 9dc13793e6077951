"""A step that is named CTX.

What it does
    Reports a step whose name is the document's.

Why
    Every later step would read the step's output in place of the document.

Example
    1. CTX = SUMMARIZE(CTX) : Summarize the document

Use instead
    1. summary = SUMMARIZE(CTX) : Summarize the document

Fix
    None.
"""

from pearl.lint.rules.base import DOCUMENT, ERROR, Findings, PlanView, Rule


def check(view: PlanView) -> Findings:
    for step in view.plan.steps:
        if step.name == DOCUMENT:
            yield RULE(
                step.name_span,
                f"{DOCUMENT} is the document, and cannot be a step's name.",
                help="Give the step another name.",
            )


RULE = Rule("PRL206", "shadowed-document", ERROR, __doc__, plan=check)
