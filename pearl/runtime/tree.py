"""Frames within frames: what a run's steps did whose actions have steps of their own.

Recursion frames are prefixes of paths in the journal, and are drawn by
renaming (DESIGN, section 7).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from pearl.graph import outputs
from pearl.plan import DOCUMENT, Arg, Items, Literal, Plan, Ref, Step, Template
from pearl.runtime.journal import Entry
from pearl.syntax import parse
from pearl.syntax.printer import print_call

_FRAME = re.compile(r"((?:step/[^/]+/)*)plan$")
_SHOWN = 48
"""Characters of what a step is called with that a picture has room for."""


@dataclass(frozen=True, slots=True)
class Branch:
    """The steps of a run, or of an action within it.

    Args:
        plan: they ran.
        within: the branches of the steps that have steps of their own, by the call's name:
            ``sub_1``, or ``born[0]`` for one call of a step that is run over a list.
    """

    plan: Plan
    within: Mapping[str, Branch]


def read_tree(entries: Iterable[Entry]) -> Branch | None:
    """The tree of a run's frames; what was tried in vain is not part of it.

    Args:
        entries: the run's journal.

    Returns:
        None where the run has no plan.
    """
    plans: dict[tuple[str, ...], str] = {}
    for entry in entries:
        found = _FRAME.match(entry.path) if entry.kind == "decision" else None
        if found and entry.status == "done" and isinstance(entry.value, str):
            plans[tuple(re.findall(r"step/([^/]+)/", found[1]))] = entry.value
    return _branch((), plans) if () in plans else None


def _branch(place: tuple[str, ...], plans: Mapping[tuple[str, ...], str]) -> Branch:
    plan = parse(plans[place], "/".join(place)).plan
    names = {step.name for step in plan.steps}
    below = [one for one in plans if len(one) == len(place) + 1 and one[: len(place)] == place]
    within = {one[-1]: _branch(one, plans) for one in below if _step(one[-1]) in names}
    return Branch(plan, within)


def lines(tree: Branch, step: str, above: str = "") -> Iterator[str]:
    """What a step's own steps were, a line each, those of its frames' frames below them.

    Args:
        tree: the step's frame.
        step: its name.
        above: the path of the frame.
    """
    for call, branch in tree.within.items():
        if _step(call) == step:
            path = f"{above}{call}"
            yield f"{path}: {' '.join(branch.plan.question.split())}"
            for one in branch.plan.steps:
                yield f"{path}: {print_call(one)}"
                yield from lines(branch, one.name, f"{path}/")


def as_plan(tree: Branch) -> Plan:
    """A tree as one plan, to be drawn: inner steps have their frames' names before their own.

    A step that has frames uses what they gave. An action's name is followed by
    the text it was called with, as far as there is room.
    """
    steps = tuple(_flat(tree, ""))
    returns = tuple(Ref(name) for name in outputs(tree.plan))
    return Plan(steps, tree.plan.question, returns=returns)


def _flat(tree: Branch, prefix: str) -> Iterator[Step]:
    for step in tree.plan.steps:
        ends: list[Arg] = []
        for call, branch in tree.within.items():
            if _step(call) == step.name:
                inner = f"{prefix}{call}."
                yield from _flat(branch, inner)
                ends += [Ref(f"{inner}{name}") for name in outputs(branch.plan)]
        args = tuple(_renamed(arg, prefix) for arg in step.args)
        yield replace(
            step,
            name=f"{prefix}{step.name}",
            action=f"{step.action}{_told(step)}",
            args=(*args, *ends),
            note=step.note or print_call(step),
        )


def _renamed(arg: Arg, prefix: str) -> Arg:
    match arg:
        case Ref():
            return _ref(arg, prefix)
        case Template():
            parts = (one if isinstance(one, str) else _ref(one, prefix) for one in arg.parts)
            return replace(arg, parts=tuple(parts))
        case Items():
            return replace(arg, items=tuple(_renamed(one, prefix) for one in arg.items))
        case Literal():
            return arg


def _ref(ref: Ref, prefix: str) -> Ref:
    return ref if ref.name == DOCUMENT else replace(ref, name=f"{prefix}{ref.name}")


def _told(step: Step) -> str:
    first = next(iter(step.args), None)
    if not isinstance(first, Literal) or not isinstance(first.value, str):
        return ""
    text = " ".join(first.value.split())
    return f": {text if len(text) <= _SHOWN else f'{text[:_SHOWN]}…'}"


def _step(call: str) -> str:
    """The step of a call: ``born`` of ``born[0]``."""
    return call.partition("[")[0]
