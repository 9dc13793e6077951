"""The document at the place of something else.

What it does
    Reports a call that gives ``CTX`` for another parameter, and a text where
    the document should stand.

Why
    Arguments are given by place: the action would look for the document
    inside a word.

Example
    1. ross = FIND_CHARACTER("Ross", CTX) : Identify Ross

Use instead
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross

Fix
    Unsafe: lets the two change places.
"""

from pearl.lint.rules.base import DOCUMENT, ERROR, Edit, Findings, Fix, PlanView, Ref, Rule, Safety


def check(view: PlanView) -> Findings:
    for index, place, arg in view.literals:
        step, action = view.plan.steps[index], view.actions[index]
        if not action or place >= len(action.params) or action.params[place].name != DOCUMENT:
            continue
        document = next((ref for ref in step.args if ref == Ref(DOCUMENT)), None)
        if document is not None:
            edits = (Edit(arg.span, DOCUMENT), Edit(document.span, view.source.at(arg.span)))
            yield RULE(
                document.span,
                f"{DOCUMENT} does not stand where {step.action} takes the document.",
                help=f"Write {action.signature}.",
                data={"action": step.action, "signature": action.signature},
                fix=Fix("change their places", edits, Safety.UNSAFE),
            )


RULE = Rule("PRL212", "misplaced-document", ERROR, __doc__, plan=check)
