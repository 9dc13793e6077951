"""How many calls several plans on one document have in common.

This measures, and rewrites nothing: calls of different plans are made once by
the engine, which keeps replies by their prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pearl.lang.ast import Plan
from pearl.lang.library import Library
from pearl.passes.base import Alike, asks_model, declared, structures


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
    groups = _groups(plans, library, Alike.CALL)
    total = sum(map(len, groups))
    shared = [group for group in groups if len(group) > 1]
    return Sharing(
        total,
        total - len(groups),
        total - len(_groups(plans, library, Alike.NOTE)),
        total - len(_groups(plans, library, Alike.PROMPT)),
        tuple(sorted(shared, key=lambda group: (-len(group), group))),
    )


def _groups(plans: Sequence[Plan], library: Library, alike: Alike) -> list[tuple[Place, ...]]:
    found: dict[str, list[Place]] = {}
    for at, plan in enumerate(plans):
        known = declared(plan, library)
        for step, key in zip(plan.steps, structures(plan, library, alike), strict=True):
            if asks_model(step, known):
                found.setdefault(key, []).append(Place(at, step.name))
    return [tuple(places) for places in found.values()]
