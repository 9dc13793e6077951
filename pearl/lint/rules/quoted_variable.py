"""A quoted text that is the name of an unused step.

What it does
    Reports a text that equals an earlier step's name, case, spaces and
    underscores aside, when no step uses that earlier step.

Why
    The earlier step found something out, and this one then starts from the
    bare word again: the quotes are most likely a mistake.

Example
    1. ro = FIND_CHARACTER(CTX, "Ro") : Identify Ro
    2. tie = FIND_RELATION(CTX, "Ro", "Aiken") : Find how Ro and Aiken are related

Use instead
    1. ro = FIND_CHARACTER(CTX, "Ro") : Identify Ro
    2. tie = FIND_RELATION(CTX, ro, "Aiken") : Find how Ro and Aiken are related

Fix
    Unsafe: writes the step's name in place of the text.
"""

from collections.abc import Iterator

from pearl.lang.ast import Literal, Step
from pearl.lang.diagnostics import Diagnostic, Label
from pearl.lint.rules.base import WARNING, Findings, PlanView, Rule, guess


def quotations(view: PlanView) -> Iterator[tuple[Step, Literal]]:
    """The steps whose names later steps quote, each with the text that quotes it."""
    if not view.literals:
        return
    steps = view.plan.steps
    own = [_folded(step.name) for step in steps]
    first = {name: index for index, name in reversed([*enumerate(own)])}
    for index, _, arg in view.literals:
        if type(arg.value) is str:
            text = _folded(arg.value)
            at = first.get(text, index)
            if at < index and text != own[index]:
                yield steps[at], arg


def _folded(text: str) -> str:
    """A name or text with case, spaces and underscores aside."""
    return text.replace(" ", "").replace("_", "").casefold()


def finding(rule: Rule, view: PlanView, step: Step, text: Literal, relation: str) -> Diagnostic:
    """What a rule says of a text that is a step's name."""
    number = view.number(view.defined[step.name])
    return rule(
        text.span,
        f'"{text.value}" is a text, and {relation.format(number=number)}.',
        help=f"If you mean what step {number} found, write {step.name}.",
        labels=(Label(step.name_span, "this step"),),
        data={"name": step.name, "text": text.value},
        fix=guess(text.span, step.name),
    )


def check(view: PlanView) -> Findings:
    returned = {ref.name for ref in view.plan.returns}
    for step, text in quotations(view):
        if step.name not in view.uses and step.name not in returned:
            relation = f"step {{number}}, {step.name}, is used nowhere"
            yield finding(RULE, view, step, text, relation)


RULE = Rule("PRL402", "quoted-variable", WARNING, __doc__, plan=check)
