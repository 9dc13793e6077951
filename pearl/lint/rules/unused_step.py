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

from __future__ import annotations

import re
from collections.abc import Iterator

from pearl.lang.diagnostics import Diagnostic, Severity
from pearl.lint.rules.base import PlanView, Rule
from pearl.lint.rules.quoted_variable import quoted_names


def check(view: PlanView) -> Iterator[Diagnostic]:
    steps = view.plan.steps
    if view.plan.returns:
        wanted = {ref.name for ref in view.plan.returns}
        if not wanted <= view.defined.keys():
            return
        for index in range(len(steps) - 1, -1, -1):
            if steps[index].name in wanted:
                wanted.update(ref.name for ref in view.step_refs[index])
        for step in steps:
            if step.name not in wanted:
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
    explained = quoted_names(view)
    # A line that cannot be read may be the one that uses it.
    mentioned = {
        word for line in view.broken for word in re.findall(r"\w+", view.source.at(line.span))
    }
    for step in unused[:-1]:
        if step.name not in explained and step.name not in mentioned:
            yield RULE(
                step.name_span,
                f"{step.name} is used by no later step, so it becomes part of the answer.",
                help=f"Use {step.name} in a later step, or return what the answer is.",
                data={"name": step.name},
            )


RULE = Rule("PRL401", "unused-step", Severity.WARNING, __doc__, plan=check)
