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

from __future__ import annotations

from collections.abc import Iterator

from pearl.lang.ast import Literal
from pearl.lang.diagnostics import Diagnostic, Edit, Fix, Label, Safety, Severity
from pearl.lint.rules.base import PlanView, Rule


def folded(text: str) -> str:
    """A name or text with case, spaces and underscores aside."""
    return text.replace(" ", "").replace("_", "").casefold()


def quotations(view: PlanView) -> Iterator[tuple[int, int, Literal]]:
    """Steps named by a later step's text: (earlier index, later index, text)."""
    names: dict[str, int] = {}
    own = [folded(step.name) for step in view.plan.steps]
    for index, name in enumerate(own):
        names.setdefault(name, index)
    for index, _, arg in view.literals:
        if type(arg.value) is str:
            text = folded(arg.value)
            at = names.get(text, index)
            if at < index and text != own[index]:
                yield at, index, arg


def quoted_names(view: PlanView) -> frozenset[str]:
    """Names of unused steps that a later step quotes."""
    steps = view.plan.steps
    return frozenset(
        steps[at].name for at, _, _ in quotations(view) if steps[at].name not in view.uses
    )


def check(view: PlanView) -> Iterator[Diagnostic]:
    steps = view.plan.steps
    returned = {ref.name for ref in view.plan.returns}
    for at, _, text in quotations(view):
        name = steps[at].name
        if name in view.uses or name in returned:
            continue
        yield RULE(
            text.span,
            f'"{text.value}" is a text, and step {view.number(at)}, {name}, is used nowhere.',
            help=f"If you mean what step {view.number(at)} found, write {name}.",
            labels=(Label(steps[at].name_span, "this step"),),
            data={"name": name, "text": text.value},
            fix=Fix(f"write {name}", (Edit(text.span, name),), Safety.UNSAFE),
        )


RULE = Rule("PRL402", "quoted-variable", Severity.WARNING, __doc__, plan=check)
