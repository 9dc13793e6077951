"""A variable that is used before its step.

What it does
    Reports a reference to the step's own output, or to a later step's.

Why
    Steps may run as soon as their inputs exist; these never do.

Example
    1. tie = FIND_RELATION(CTX, ross, "Mara") : Find how they stand to each other
    2. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross

Use instead
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. tie = FIND_RELATION(CTX, ross, "Mara") : Find how they stand to each other

Fix
    None.
"""

from pearl.lang.graph import needed
from pearl.lint.rules.base import DOCUMENT, ERROR, Findings, Label, PlanView, Rule

# The most steps before the definition that are searched for a cycle.
_MOST = 100


def check(view: PlanView) -> Findings:
    steps = view.plan.steps
    # For each name, the start of the first unreadable line that defines it.
    unread = {line.name: line.span.start for line in reversed(view.broken)}
    for index, used in enumerate(view.step_refs):
        for ref in used:
            at = view.defined.get(ref.name, -1)
            # Another rule reports a step with the document's name.
            if at < index or ref.name == DOCUMENT:
                continue
            if unread.get(ref.name, ref.span.start) < ref.span.start:
                continue
            step, source = view.number(index), view.number(at)
            if at == index:
                help = (
                    f'A step cannot use its own output. If you mean the word, write "{ref.name}".'
                )
            elif steps[index].name in needed([ref.name], steps[max(index, at - _MOST) : at + 1]):
                help = f"Step {source} needs step {step}, too: let one do without the other."
            else:
                help = f"Put step {source} before step {step}."
            yield RULE(
                ref.span,
                f"{ref.name} is used in step {step}, and defined in step {source}.",
                help=help,
                labels=(Label(steps[at].name_span, "defined here"),),
                data={"name": ref.name, "step": step, "defined": source},
            )


RULE = Rule("PRL204", "used-before-step", ERROR, __doc__, plan=check)
