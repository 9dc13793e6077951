"""What a call means: its action and inputs, whatever the plan calls them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from pearl.library import Library
from pearl.passes.base import declared
from pearl.plan import DOCUMENT, Arg, Builtin, Items, Literal, Plan, Ref, Step, Template
from pearl.syntax.printer import print_action, print_call
from pearl.values import canonical_json, to_json


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
