"""Two lists mapped in one step.

What it does
    Reports a step in which two different references carry ``each`` or
    ``where``, or one reference carries both. ``each x`` beside ``each values
    x`` or ``where values x`` is the key of the same item.

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

from pearl.lang.ast import Mode, Ref
from pearl.lint.rules.base import ERROR, Findings, PlanView, Rule


def check(view: PlanView) -> Findings:
    lists: dict[int, list[Ref]] = {}
    for index, ref in view.moded:
        if ref.maps and ref not in lists.setdefault(index, []):
            lists[index].append(ref)
    for index, listed in lists.items():
        first = view.mapped_over[index] or listed[0]
        keys = Ref(first.name, Mode.EACH) if first.mode.endswith("values") else first
        others = [ref for ref in listed if ref not in (first, keys)]
        for ref in others[:1]:
            yield RULE(
                ref.span,
                f"This step already maps {first.mode} {first.name}.",
                help="Map one list a step.",
                data={"first": first.name, "second": ref.name},
            )


RULE = Rule("PRL302", "several-modes", ERROR, __doc__, plan=check)
