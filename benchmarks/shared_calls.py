"""How many calls several plans on one document have in common.

This measures, and rewrites nothing: calls of different plans are made once by
the engine, which keeps replies by their prompts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pearl.lang.ast import DOCUMENT, Builtin, Plan, Ref, Step, map_refs
from pearl.lang.library import Library
from pearl.lang.printer import print_action, print_arg, print_call
from pearl.lang.values import canonical_json
from pearl.passes.base import asks_model


class Place(NamedTuple):
    """A step of one of several plans: the plan's index, and the step's name."""

    plan: int
    step: str


@dataclass(frozen=True, slots=True)
class Sharing:
    """What plans on one document have in common.

    Args:
        total: steps that a model carries out; one with ``each`` or ``where``
            counts as one, as its items are not known before it runs.
        saved: those for which another stands: the same action on the same
            inputs, whatever the steps are called.
        saved_noted: those for which another with the same notes stands.
        saved_prompted: those for which another with the same notes and names
            of steps stands, so that the prompts are the same to the letter
            once the inputs are.
        groups: the steps that are one call in the sense of ``saved``, largest
            group first.
    """

    total: int
    saved: int
    saved_noted: int
    saved_prompted: int
    groups: tuple[tuple[Place, ...], ...]


def shared_calls(plans: Sequence[Plan], library: Library) -> Sharing:
    """Find the calls that several plans on the same document have in common.

    Args:
        plans: plans whose ``CTX`` is one document; calls that one plan makes
            twice count too.
        library: the actions they may call, without their own.
    """
    groups = _groups(plans, library, lambda _: [])
    total = sum(map(len, groups))
    noted = _groups(plans, library, lambda step: [step.note])
    prompted = _groups(plans, library, lambda step: [step.note, print_call(step)])
    return Sharing(
        total,
        total - len(groups),
        total - len(noted),
        total - len(prompted),
        tuple(
            sorted(
                (group for group in groups if len(group) > 1),
                key=lambda group: (-len(group), group),
            )
        ),
    )


def _groups(
    plans: Sequence[Plan], library: Library, prompt: Callable[[Step], list[str]]
) -> list[tuple[Place, ...]]:
    """The steps that a model carries out, those that make the same call together.

    Args:
        plans: plans on one document.
        library: the actions they may call, without their own.
        prompt: what else of a step has to be the same, as it stands in its prompt.
    """
    groups: dict[str, list[Place]] = {}
    for at, plan in enumerate(plans):
        known = library.with_declared(plan.declares)
        for step, key in zip(plan.steps, _keys(plan, known, prompt), strict=True):
            if asks_model(step, known):
                groups.setdefault(key, []).append(Place(at, step.name))
    return [tuple(places) for places in groups.values()]


def _keys(plan: Plan, library: Library, prompt: Callable[[Step], list[str]]) -> list[str]:
    """A hash for every step, the same for steps of any plan that make the same call."""
    seen = {DOCUMENT: DOCUMENT}
    keys: list[str] = []
    for step in plan.steps:
        call = _call(step, library, seen)
        key = canonical_json([call, prompt(step) if asks_model(step, library) else []])
        keys.append(hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest())
        seen[step.name] = keys[-1]
    return keys


def _call(step: Step, library: Library, seen: Mapping[str, str]) -> list[Any]:
    """What a step asks of which action: two plans may define one name in two ways."""

    def same(ref: Ref) -> Ref:
        # A reference counts as the call it refers to; what is not defined, but for its name.
        return replace(ref, name=seen.get(ref.name, f"? {ref.name}"))

    action = library.get(step.action)
    called: list[Any] = ["unknown", step.action]
    if action is not None:
        body = action.body.function if isinstance(action.body, Builtin) else None
        called = [print_action(action), body]
    # As they are written, 1, 1.0 and true are three things.
    return [called, [print_arg(map_refs(arg, same)) for arg in step.args]]
