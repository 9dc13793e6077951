"""What a pass is, and what several of them need.

What a call means: its action and inputs, whatever the plan calls them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from pearl.lang.ast import (
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
from pearl.lang.diagnostics import Safety
from pearl.lang.graph import outputs, sinks
from pearl.lang.library import Library
from pearl.lang.printer import print_action, print_call
from pearl.lang.values import canonical_json, to_json


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


class Alike(StrEnum):
    """When two calls count as one, from the widest to the narrowest."""

    CALL = "the same action on the same inputs"
    NOTE = "the same note as well"
    PROMPT = "the same names of steps as well, which is the same prompt"


def structures(plan: Plan, library: Library, alike: Alike) -> list[str]:
    """A hash for every step, the same for steps that make the same call.

    A reference counts as the call it refers to, so that hashes compare
    between plans on one document.

    Args:
        plan: any plan, also one with errors.
        library: the actions it may call, without its own.
        alike: which calls are the same.
    """
    known = declared(plan, library)
    seen = {DOCUMENT: DOCUMENT}
    found: list[str] = []
    for step in plan.steps:
        # What is not defined is like nothing else, but for its name.
        args = [arg_key(arg, lambda ref: seen.get(ref.name, f"? {ref.name}")) for arg in step.args]
        key = [action_key(step, known), args, *_asked(step, known, alike)]
        found.append(
            hashlib.sha256(canonical_json(key).encode("utf-8", "surrogatepass")).hexdigest()
        )
        seen[step.name] = found[-1]
    return found


def asks_model(step: Step, library: Library) -> bool:
    """Whether a step is carried out by a model; an unknown action is taken to be."""
    action = library.get(step.action)
    return action is None or not isinstance(action.body, Builtin)


def action_key(step: Step, library: Library) -> Any:  # noqa: ANN401 - JSON
    """What decides an action, as JSON data: two plans may define one name in two ways."""
    action = library.get(step.action)
    if action is None:
        return ["unknown", step.action]
    body = action.body.function if isinstance(action.body, Builtin) else None
    return [print_action(action), body]


def arg_key(arg: Arg, name: Callable[[Ref], str]) -> Any:  # noqa: ANN401 - JSON
    """An argument as JSON data, in which 1, 1.0 and true are three things.

    Args:
        arg: the argument.
        name: what stands for a reference's name.
    """
    match arg:
        case Ref():
            return ["ref", str(arg.mode), name(arg)]
        case Literal():
            return ["literal", to_json(arg.value)]
        case Template():
            parts = [part if isinstance(part, str) else arg_key(part, name) for part in arg.parts]
            return ["template", parts]
        case Items():
            return ["list", [arg_key(item, name) for item in arg.items]]


def _asked(step: Step, library: Library, alike: Alike) -> list[str]:
    """What stands in a step's prompt besides its action and inputs."""
    if alike is Alike.CALL or not asks_model(step, library):
        return []
    return [step.note] if alike is Alike.NOTE else [step.note, print_call(step)]
