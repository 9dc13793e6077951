"""A quoted text that is the name of a step used elsewhere.

What it does
    Reports a text that equals an earlier step's name, case, spaces and
    underscores aside, when other steps do use that earlier step. See also
    PRL402, for steps that nothing uses.

Why
    Sometimes the quotes are a mistake. Often they are not: the step needs the
    bare name of a person whom another step describes. So this rule is off
    unless selected.

Example
    1. ro = FIND_CHARACTER(CTX, "Ro") : Identify Ro
    2. tie = FIND_RELATION(CTX, ro, "Aiken") : Find how Ro and Aiken are related
    3. end = FIND_FATE(CTX, "Ro") : Find what becomes of Ro
    4. ans = CONCAT(tie, end) : Combine them

Use instead
    1. ro = FIND_CHARACTER(CTX, "Ro") : Identify Ro
    2. tie = FIND_RELATION(CTX, ro, "Aiken") : Find how Ro and Aiken are related
    3. end = FIND_FATE(CTX, ro) : Find what becomes of Ro
    4. ans = CONCAT(tie, end) : Combine them

Fix
    Unsafe: writes the step's name in place of the text.
"""

from pearl.lint.rules.base import WARNING, Findings, PlanView, Rule
from pearl.lint.rules.quoted_variable import finding, quotations


def check(view: PlanView) -> Findings:
    for step, text in quotations(view):
        if step.name in view.uses:
            yield finding(RULE, view, step, text, "also the name of step {number}")


RULE = Rule("PRL407", "quoted-name", WARNING, __doc__, enabled=False, plan=check)
