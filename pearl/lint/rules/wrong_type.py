"""An argument of another type than the parameter takes.

What it does
    Compares the types that builtins and typed parameters take with what the
    arguments are and the earlier steps give. Where a type is not known,
    nothing is said.

Why
    ``KEYS`` of a list that is not pairs, or ``COUNT`` of a number, has no
    answer.

Example
    1. people = FIND_ALL(CTX, "people") : List the people
    2. names = KEYS(people) : Take their names

Use instead
    1. people = FIND_ALL(CTX, "people") : List the people
    2. ages = FIND_QUANTITY(CTX, each people) : Find how old each is
    3. names = KEYS(ages) : Take their names

Fix
    None.
"""

from pearl.lang.ast import DOCUMENT
from pearl.lang.builtins import types_taken
from pearl.lint.rules.base import ERROR, Findings, PlanView, Rule

_ANSWERS = ("bool", "any", "text")


def check(view: PlanView) -> Findings:
    for index, ref in view.moded:
        action = view.actions[index]
        if ref.mode.startswith("where") and action and action.returns not in _ANSWERS:
            called = view.plan.steps[index].action
            yield RULE(
                ref.span,
                f"where needs an action that answers yes or no; {called} gives {action.returns}.",
                help="Use an action that returns bool.",
                data={"action": called, "type": action.returns},
            )
    for index, (step, action) in enumerate(zip(view.plan.steps, view.actions, strict=True)):
        # Most take anything: that is quickly seen.
        if not action or not (action.is_builtin or any(p.type != "any" for p in action.params)):
            continue
        arguments = zip(action.params, step.args, strict=False)
        pairs = [(param, arg) for param, arg in arguments if param.name != DOCUMENT]
        for (param, arg), types in zip(pairs, types_taken(action), strict=False):
            kind = view.type_of_argument(arg, index)
            if kind != "any" and not {"any", kind} & {*types}:
                expected = " or ".join(types)
                yield RULE(
                    arg.span,
                    f"{step.action} takes {expected} for {param.name}, and is given {kind}.",
                    help=f"Give {step.action} a step whose output is {expected}.",
                    data={"action": step.action, "parameter": param.name, "type": kind},
                )


RULE = Rule("PRL303", "wrong-type", ERROR, __doc__, plan=check)
