"""A number that may stand for a step.

What it does
    Reports ``1``, ``[1]`` and, inside a text, ``#1`` as an argument, where
    there is an earlier step of that number and the parameter takes anything; not
    of builtins such as ITEM, which take numbers.

Why
    An earlier output is reached by its step's name. The number itself is what
    the model would be given.

Example
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. view = FIND_OPINION(CTX, 1, "the sale") : Find his opinion

Use instead
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. view = FIND_OPINION(CTX, ross, "the sale") : Find his opinion

Fix
    Unsafe: writes the step's name.
"""

from pearl.lang.ast import Builtin, Function, Literal, SubPlan
from pearl.lang.text import pattern
from pearl.lint.rules.base import WARNING, Findings, PlanView, Rule, Span, guess, taught

_HASH = pattern(r"(?<![\w#{])#(\d{1,2})(?!\w)")


def check(view: PlanView) -> Findings:
    for index, place, arg in view.literals:
        if type(arg.value) is str and "#" not in arg.value:
            continue
        number, span = _number(view, arg)
        if not 1 <= number <= view.number(index):
            continue
        action = view.actions[index]
        if action and place < len(action.params):
            # Builtins, handlers that are plans, and those whose examples have a number here take
            # numbers for what they are.
            exact = isinstance(action.body, Builtin | Function | SubPlan) and not action.variadic
            exact = exact or any(type(value) is int for value in taught(action, place))
            if exact or action.params[place].type == "number":
                continue
        before = {view.number(at): step.name for at, step in enumerate(view.plan.steps[:index])}
        if (name := before.get(number, "")) == "":
            continue
        ref = name if span == arg.span else f"{{{name}}}"
        yield RULE(
            arg.span,
            f"{view.source.at(span)} is a number, and not step {number}.",
            help=f"If you mean step {number}, write {ref}.",
            data={"name": name, "number": number},
            fix=guess(span, ref, f"write {name}"),
        )


def _number(view: PlanView, arg: Literal) -> tuple[int, Span]:
    """The number an argument comes down to, or 0, and its place."""
    value = arg.value
    if type(value) is int:
        return value, arg.span
    if isinstance(value, list) and len(value) == 1 and type(value[0]) is int:
        return value[0], arg.span
    match = _HASH.search(view.source.text, *arg.span) if type(value) is str else None
    return (int(match[1]), Span(*match.span())) if match else (0, arg.span)


RULE = Rule("PRL408", "number-for-step", WARNING, __doc__, plan=check)
