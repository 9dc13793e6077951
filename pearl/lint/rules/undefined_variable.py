"""A reference to something no step defines.

What it does
    Reports a name that stands as an argument and is no step's output.

Why
    The step would run without its input. Often the author meant the word, and
    forgot its quotes.

Example
    1. tie = FIND_RELATION(CTX, "Ross", mother) : Find how they stand to each other

Use instead
    1. tie = FIND_RELATION(CTX, "Ross", "mother") : Find how they stand to each other

Fix
    Safe for ``ctx`` (``CTX``); unsafe: quotes the word.
"""

from __future__ import annotations

from collections.abc import Iterator

from pearl.lang.ast import DOCUMENT, Ref
from pearl.lang.diagnostics import Diagnostic, Edit, Fix, Safety, Severity
from pearl.lint.rules.base import PlanView, Rule

# A plan of many steps: the nearest names are listed.
_MOST = 30


def check(view: PlanView) -> Iterator[Diagnostic]:
    in_templates = {id(ref) for ref in view.template_refs}
    for index, found in enumerate(view.step_refs):
        for ref in found:
            if ref.name == DOCUMENT or ref.name in view.defined or id(ref) in in_templates:
                continue
            if ref.name not in view.broken_names:
                yield _undefined(view, ref, index)
    for ref in view.plan.returns:
        if ref.name not in view.defined and ref.name not in view.broken_names:
            yield _undefined(view, ref, len(view.plan.steps))


def _undefined(view: PlanView, ref: Ref, index: int) -> Diagnostic:
    known = [DOCUMENT, *(step.name for step in view.plan.steps[max(0, index - _MOST) : index])]
    same = [name for name in known if name.casefold() == ref.name.casefold()]
    fix = None
    if len(set(same)) == 1:
        safety = Safety.SAFE if same[0] == DOCUMENT else Safety.UNSAFE
        fix = Fix(f"write {same[0]}", (Edit(ref.span, same[0]),), safety)
    elif index < len(view.plan.steps) and not ref.mode:
        fix = Fix("quote the word", (Edit(ref.span, f'"{ref.name}"'),), Safety.UNSAFE)
    where = f"before step {view.number(index)}" if index < len(view.plan.steps) else "in the plan"
    word = f' If you mean the word, write "{ref.name}".' if index < len(view.plan.steps) else ""
    return RULE(
        ref.span,
        f"{ref.name} is not defined {where}.",
        help=f"Defined: {', '.join(known)}.{word}",
        data={"name": ref.name, "candidates": known},
        fix=fix,
    )


RULE = Rule("PRL202", "undefined-variable", Severity.ERROR, __doc__, plan=check)
