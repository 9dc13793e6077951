"""An argument that the parameter cannot take.

What it does
    Compares the types that builtins and typed parameters take with what the
    arguments are and the earlier steps give, and numbers that the plan itself
    gives with those that ``PARTS``, ``GROUPS`` and ``ITEM`` can work on. The
    document is a text that only models read: a parameter with another name than
    ``CTX`` takes it where it has no other type and a model carries the action
    out. Where a type is not known, nothing is said.

Why
    ``KEYS`` of a list that is not pairs, or ``COUNT`` of a number, has no
    answer. A builtin, a plan, a solver or a function is given steps' outputs and
    the plan's own words: in place of the document, it would get nothing.

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

from pearl.lang.ast import DOCUMENT, Builtin, Literal, Prompt, Ref
from pearl.lang.builtins import KINDS, MOST, is_of, kinds_taken
from pearl.lang.printer import print_value
from pearl.lint.rules.base import ERROR, Findings, PlanView, Rule

_ANSWERS = ("bool", "any", "text")
_VALUES = {"count": f"a whole number from 1 to {MOST}", "last": '"last"'}


def check(view: PlanView) -> Findings:
    for index, ref in view.moded:
        action = view.actions[index]
        if ref.mode.startswith("where") and action and action.returns not in _ANSWERS:
            called = view.plan.steps[index].action
            yield RULE(
                ref.span,
                f"where needs an action that answers yes or no; {called} gives {action.returns}.",
                help=f"Filter in a step of its own, by {view.action_of('bool')}.",
                data={"action": called, "type": action.returns},
            )
    for index, (step, action) in enumerate(zip(view.plan.steps, view.actions, strict=True)):
        asks = action and isinstance(action.body, Prompt)
        # A quick test first, as most actions take anything.
        if not action or (asks and all(param.type == "any" for param in action.params)):
            continue
        # A model reads the document beside its arguments, and CONCAT ignores it. If the action has
        # a parameter for the document, another rule reports it in any other place.
        reads = asks or action.body == Builtin("concat")
        placed = any(param.name == DOCUMENT for param in action.params)
        arguments = zip(action.params, step.args, strict=False)
        pairs = [(param, arg) for param, arg in arguments if param.name != DOCUMENT]
        for (param, arg), kinds in zip(pairs, kinds_taken(action), strict=False):
            types = [KINDS[kind] for kind in kinds]
            whole = arg == Ref(DOCUMENT) and not (placed or (reads and {"any", "text"} & {*types}))
            if "any" in types and not whole:
                continue
            given = "the document" if whole else view.type_of_argument(arg, index)
            if given == "any":
                continue
            wanted = help = ""
            if given not in types:
                wanted, shown = " or ".join(types), str(given)
                source = " with each" if types == ["pairs"] else f" of {view.action_of(*types)}"
                if "any" in types:
                    wanted, source = "what a step gives", ""
                help = f"Give {step.action} a step{source}."
            elif isinstance(arg, Literal) and not any(is_of(kind, arg.value) for kind in kinds):
                wanted, shown = " or ".join(_VALUES[kind] for kind in kinds), print_value(arg.value)
                help = f"Write {wanted}."
            if wanted:
                yield RULE(
                    arg.span,
                    f"{step.action} takes {wanted} for {param.name}, and is given {shown}.",
                    help=help,
                    data={"action": step.action, "parameter": param.name, "type": given},
                )


RULE = Rule("PRL303", "wrong-type", ERROR, __doc__, plan=check)
