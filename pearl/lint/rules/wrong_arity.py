"""A call with too few or too many arguments.

What it does
    Compares a call's arguments with the action's parameters.

Why
    The definition speaks of every parameter; with one missing it says nothing.

Example
    1. tie = FIND_RELATION("Ross", "Mara") : Find how they stand to each other

Use instead
    1. tie = FIND_RELATION(CTX, "Ross", "Mara") : Find how they stand to each other

Fix
    Unsafe where only the document makes the difference: gives ``CTX`` to an action that takes it,
    and takes it from one that does not; otherwise none.
"""

from pearl.lang.ast import DOCUMENT, Action, Ref, Step
from pearl.lang.text import counted
from pearl.lint.rules.base import ERROR, Findings, Fix, PlanView, Rule, Span, guess


def check(view: PlanView) -> Findings:
    for step, action in zip(view.plan.steps, view.actions, strict=True):
        if not action:
            continue
        count = len(step.args)
        if action.takes(count):
            continue
        takes = f"{'at least ' if action.variadic else ''}{counted(action.fewest, 'argument')}"
        yield RULE(
            step.action_span,
            f"{step.action} takes {takes}, and is given {count}.",
            help=f"Write {action.signature}.",
            data={"action": step.action, "signature": action.signature, "given": count},
            fix=_fix(view.source.text, step, action),
        )


def _fix(text: str, step: Step, action: Action) -> Fix | None:
    """To give an action the document, or not to, where its arguments are right with that."""
    places = [at for at, param in enumerate(action.params) if param.name == DOCUMENT]
    given = [at for at, arg in enumerate(step.args) if arg == Ref(DOCUMENT)]
    args = [text[slice(*arg.span)] for arg in step.args]
    close = text.find(")", step.action_span.end, step.span.end)
    if len(places) == 1 and not given and action.takes(len(args) + 1) and close >= 0:
        title = f"give it {DOCUMENT}"
        args.insert(places[0], DOCUMENT)
    elif len(given) == 1 and not places and action.takes(len(args) - 1):
        title = f"leave out {DOCUMENT}"
        del args[given[0]]
    else:
        return None
    ends = (step.args[0].span.start, step.args[-1].span.end) if step.args else (close, close)
    return guess(Span(*ends), ", ".join(args), title)


RULE = Rule("PRL203", "wrong-arity", ERROR, __doc__, plan=check)
