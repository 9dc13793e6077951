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
    Safe for ``ctx`` (``CTX``); unsafe: writes the name that it nearly is, or else
    quotes the word.
"""

from collections.abc import Sequence

from pearl.lang.ast import DOCUMENT, Ref
from pearl.lint.rules.base import ERROR, Diagnostic, Edit, Findings, Fix, PlanView, Rule, Safety

# A plan of many steps: the nearest names are listed.
_MOST = 30


def check(view: PlanView) -> Findings:
    end = len(view.plan.steps)
    templates = {id(ref) for ref in view.template_refs}  # they have a rule of their own
    for index, used in enumerate((*view.step_refs, view.plan.returns)):
        for ref in used:
            if ref.name in view.defined or (ref.name == DOCUMENT and index < end):
                continue
            if ref.name not in view.broken_names and id(ref) not in templates:
                yield _undefined(view, ref, index)


def _undefined(view: PlanView, ref: Ref, index: int) -> Diagnostic:
    steps = view.plan.steps
    returned = index == len(steps)
    known = [DOCUMENT, *(step.name for step in steps[max(0, index - _MOST) : index])]
    same = {name for name in known if name.casefold() == ref.name.casefold()}
    near = _nearest(ref.name, known)
    fix = None
    wanted = next(iter(same)) if len(same) == 1 else near
    if near and not same:
        fix = Fix(f"write {near}", (Edit(ref.span, near),), Safety.UNSAFE)
    elif len(same) == 1:
        safety = Safety.SAFE if wanted == DOCUMENT else Safety.UNSAFE
        fix = Fix(f"write {wanted}", (Edit(ref.span, wanted),), safety)
    elif not returned and not ref.mode:
        fix = Fix("quote the word", (Edit(ref.span, f'"{ref.name}"'),), Safety.UNSAFE)
    where = "in the plan" if returned else f"before step {view.number(index)}"
    # Who writes ctx means no word.
    is_word = not returned and wanted != DOCUMENT
    word = f' If you mean the word, write "{ref.name}".' if is_word else ""
    return RULE(
        ref.span,
        f"{ref.name} is not defined {where}.",
        help=f"{f'Closest: {wanted}. ' if wanted else ''}Defined: {', '.join(known)}.{word}",
        data={"name": ref.name, "candidates": known},
        fix=fix,
    )


def _nearest(name: str, known: Sequence[str]) -> str:
    """The one name that a slip of the pen turns into another, or nothing."""
    from rapidfuzz.distance import OSA

    slips = 1 + len(name) // 8
    near = [one for one in known if 0 < OSA.distance(name, one, score_cutoff=slips) <= slips]
    return near[0] if len(near) == 1 and len(name) > 3 else ""


RULE = Rule("PRL202", "undefined-variable", ERROR, __doc__, plan=check)
