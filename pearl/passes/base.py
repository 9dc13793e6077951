"""What a pass is, and what several of them need."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from pearl.diagnostics import Safety
from pearl.graph import outputs, sinks
from pearl.library import Library
from pearl.plan import (
    DOCUMENT,
    Arg,
    Builtin,
    Items,
    Literal,
    Plan,
    Ref,
    Step,
    Template,
    step_refs,
)


@dataclass(frozen=True, slots=True)
class Applied:
    """What a pass made of a plan.

    Args:
        plan: the plan after it; the same object where nothing applied.
        notes: one sentence for each rewrite, naming the step; empty where
            nothing applied.
    """

    plan: Plan
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pass:
    """A rewrite of plans.

    A pass that needs more than a plan and a library (a document's size, say)
    is made by a function that takes it and gives a `Pass`.

    Args:
        name: as users write it (``drop-unreachable``).
        safety: safe where it can change neither an answer nor the prompt of
            a call whose output reaches the answer.
        apply: takes a plan that has no errors and the library it was checked
            against, without the plan's own actions, and changes neither; a
            plan that is not `sound` comes back as it is.
        doc: the module's docstring, which is its documentation.
    """

    name: str
    safety: Safety
    apply: Callable[[Plan, Library], Applied]
    doc: str

    def section(self, title: str) -> str:
        """A section of the documentation, unindented (``Why``, ``Before``, ``Safety``)."""
        found = re.search(rf"^{title}\n((?:    .*\n|\n)+)", self.doc + "\n", re.MULTILINE)
        lines = found[1].rstrip().splitlines() if found else []
        return "\n".join(line[4:] for line in lines)


def sound(plan: Plan) -> bool:
    """Whether names are given once, before they are used, and what is returned exists."""
    known = {DOCUMENT}
    for step in plan.steps:
        if step.name in known or any(ref.name not in known for ref in step_refs(step)):
            return False
        known.add(step.name)
    return all(ref.name in known and ref.name != DOCUMENT for ref in plan.returns)


def declared(plan: Plan, library: Library) -> Library:
    """The library with the plan's own actions."""
    return library.with_declared(plan.declares)


def pure_builtin(step: Step, library: Library) -> str | None:
    """The builtin that carries out a step, where its action is marked as pure.

    Args:
        step: any step.
        library: with the plan's own actions.
    """
    action = library.get(step.action)
    if action is None or not isinstance(action.body, Builtin) or "pure" not in action.traits:
        return None
    return action.body.function


def users(plan: Plan, name: str) -> list[Step]:
    """The steps that take a step's output, in order."""
    return [step for step in plan.steps if any(ref.name == name for ref in step_refs(step))]


def renamed(step: Step, names: Mapping[str, str]) -> Step:
    """The step with its references renamed, whatever their mode."""
    if not any(ref.name in names for ref in step_refs(step)):
        return step
    return replace(step, args=tuple(_renamed(arg, names) for arg in step.args))


def _renamed(arg: Arg, names: Mapping[str, str]) -> Arg:
    match arg:
        case Ref():
            return _ref(arg, names)
        case Template():
            parts = (part if isinstance(part, str) else _ref(part, names) for part in arg.parts)
            return replace(arg, parts=tuple(parts))
        case Items():
            return replace(arg, items=tuple(_renamed(item, names) for item in arg.items))
        case Literal():
            return arg


def _ref(ref: Ref, names: Mapping[str, str]) -> Ref:
    return replace(ref, name=names.get(ref.name, ref.name))


def without(plan: Plan, gone: Collection[str], stand_ins: Mapping[str, str]) -> Plan:
    """The plan without some steps, whose outputs others stand in for.

    The answer stays: where PEARL's rule would no longer give the outputs it
    gave, they are returned by name. Comments above a step that goes move to
    the one below; actions that only such steps called are declared no more.

    Args:
        plan: a sound plan.
        gone: the names of the steps to take out.
        stand_ins: for steps that go, the names of those that take their place
            in arguments and in the answer.
    """
    steps: list[Step] = []
    comments: tuple[str, ...] = ()
    for step in plan.steps:
        comments += step.comments
        if step.name not in gone:
            steps.append(replace(renamed(step, stand_ins), comments=comments))
            comments = ()
    answer = tuple(stand_ins.get(name, name) for name in outputs(plan))
    by_rule = not plan.returns and sinks(steps) == answer
    called = {step.action for step in steps}
    before = {step.action for step in plan.steps}
    return replace(
        plan,
        steps=tuple(steps),
        returns=() if by_rule else tuple(Ref(name) for name in answer),
        declares=tuple(
            one for one in plan.declares if one.name in called or one.name not in before
        ),
        comments=comments + plan.comments,
    )
