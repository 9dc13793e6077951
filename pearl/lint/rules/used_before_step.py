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

from __future__ import annotations

from collections.abc import Iterator

from pearl.lang.diagnostics import Diagnostic, Label, Severity
from pearl.lint.rules.base import PlanView, Rule


def check(view: PlanView) -> Iterator[Diagnostic]:
    defined = view.defined
    for index, found in enumerate(view.step_refs):
        for ref in found:
            at = defined.get(ref.name, -1)
            if at < index:
                continue
            own = at == index
            help_ = (
                f'A step cannot use its own output. If you mean the word, write "{ref.name}".'
                if own
                else f"Put step {view.number(at)} before step {view.number(index)}."
            )
            yield RULE(
                ref.span,
                f"{ref.name} is used in step {view.number(index)}, and defined in "
                f"step {view.number(at)}.",
                help=help_,
                labels=(Label(view.plan.steps[at].name_span, "defined here"),),
                data={"name": ref.name, "step": view.number(index), "defined": view.number(at)},
            )


RULE = Rule("PRL204", "used-before-step", Severity.ERROR, __doc__, plan=check)
