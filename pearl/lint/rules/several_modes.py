"""Two lists mapped in one step.

What it does
    Reports a step in which two different references carry ``each`` or
    ``where``, or one reference carries both.

Why
    Whether to run every pair of items or the items side by side is not said.

Example
    1. people = FIND_ALL(CTX, "people") : List the people
    2. towns = FIND_ALL(CTX, "towns") : List the towns
    3. ties = FIND_RELATION(CTX, each people, each towns) : Find how they are tied

Use instead
    1. people = FIND_ALL(CTX, "people") : List the people
    2. towns = FIND_ALL(CTX, "towns") : List the towns
    3. ties = FIND_RELATION(CTX, each people, towns) : Find how they are tied

Fix
    None.
"""

from pearl.lint.rules.base import ERROR, Findings, PlanView, Rule


def check(view: PlanView) -> Findings:
    for found in view.step_refs:
        moded = [ref for ref in found if ref.maps]
        if len(moded) < 2:
            continue
        first = moded[0]
        for ref in moded[1:]:
            if (ref.name, ref.mode) != (first.name, first.mode):
                yield RULE(
                    ref.span,
                    f"This step already maps {first.mode} {first.name}.",
                    help="Map one list a step.",
                    data={"first": first.name, "second": ref.name},
                )
                break


RULE = Rule("PRL302", "several-modes", ERROR, __doc__, plan=check)
