"""A step that no later step uses.

What it does
    Reports a step whose output is no step's input, when another such step
    comes after it, or when the plan returns something else.

Why
    Without ``return``, every output that no step uses belongs to the answer
    (PEARL's rule). A step that was meant as an input of a later one then
    stands in the answer, and the later one runs without it.

Example
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. sale = FIND_EVENT(CTX, "the sale of the magazine") : Find the sale

Use instead
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. view = FIND_OPINION(CTX, ross, "the sale of the magazine") : Find Ross's opinion

Fix
    None: whether the step is missing below or belongs to the answer is the
    author's to say. An explicit ``return`` says it.
"""

import re
from collections.abc import Sequence

from pearl.lang.graph import needed
from pearl.lint.rules.base import DOCUMENT, WARNING, Findings, PlanView, Rule
from pearl.lint.rules.names import alike, resembling
from pearl.lint.rules.quoted_variable import quotations

# The most undefined names that are compared with the unused steps.
_MOST = 100


def check(view: PlanView) -> Findings:
    steps = view.plan.steps
    if view.plan.returns:
        returned = {ref.name for ref in view.plan.returns}
        used = needed(returned, steps)
        # A misspelt name is reported where it stands; the step that it means has its part.
        misspelt = _misspelt(view, [step.name for step in steps if step.name not in used])
        used = needed(returned | misspelt, steps)
        for step in steps if returned <= view.defined.keys() else ():
            if step.name not in used:
                yield RULE(
                    step.name_span,
                    f"{step.name} has no part in what the plan returns.",
                    help="Use it in a later step, return it, or take it out.",
                    data={"name": step.name},
                )
        return
    unused = [step for step in steps if step.name not in view.uses]
    if len(unused) < 2:
        return
    # Other rules report a quoted name and a misspelt one, and a line that cannot be read may
    # use the step.
    explained = {step.name for step, _ in quotations(view)}
    explained |= _misspelt(view, [step.name for step in unused])
    explained.update(word for line in view.broken for word in re.findall(r"\w+", line.text))
    for step in unused[:-1]:
        if step.name not in explained:
            yield RULE(
                step.name_span,
                f"{step.name} is used by no later step, so it becomes part of the answer.",
                help=f"Use {step.name} in a later step, or return what the answer is.",
                data={"name": step.name},
            )


def _misspelt(view: PlanView, names: Sequence[str]) -> set[str]:
    """The names, of some, that an undefined name of the plan may mean."""
    undefined = [name for name in view.uses if name not in view.defined and name != DOCUMENT]
    found: set[str] = set()
    for name in undefined[:_MOST]:
        found.update(alike(name, names, word=False), resembling(name, names))
    return found


RULE = Rule("PRL401", "unused-step", WARNING, __doc__, plan=check)
