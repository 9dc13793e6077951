"""What depends on what in a plan: order, sinks, levels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pearl.plan import DOCUMENT, Plan, Step, step_refs


def dependencies(steps: Sequence[Step]) -> dict[str, tuple[str, ...]]:
    """The earlier steps whose outputs each step uses, by name, without repeats."""
    known: set[str] = set()
    found: dict[str, tuple[str, ...]] = {}
    for step in steps:
        names = dict.fromkeys(ref.name for ref in step_refs(step) if ref.name in known)
        found[step.name] = tuple(names)
        known.add(step.name)
    return found


def sinks(steps: Sequence[Step]) -> tuple[str, ...]:
    """The steps whose outputs no step uses, in order: PEARL's answer."""
    used = {ref.name for step in steps for ref in step_refs(step)}
    return tuple(step.name for step in steps if step.name not in used)


def outputs(plan: Plan) -> tuple[str, ...]:
    """The steps that make up the answer: what is returned, or else the sinks."""
    if plan.returns:
        return tuple(ref.name for ref in plan.returns)
    return sinks(plan.steps)


def needed(names: Iterable[str], steps: Sequence[Step]) -> frozenset[str]:
    """The steps of some names, and every step that they need, also through others.

    Args:
        names: of steps.
        steps: a plan's, in its order.
    """
    found = set(names)
    for step in reversed(steps):
        if step.name in found:
            found.update(ref.name for ref in step_refs(step))
    return frozenset(one.name for one in steps if one.name in found)


def levels(needs: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """How many steps must run one after another before each; 0 for the first."""
    found: dict[str, int] = {}
    for name, inputs in needs.items():
        found[name] = max((found[one] + 1 for one in inputs), default=0)
    return found


def reads_document(step: Step) -> bool:
    """Whether the step takes the document."""
    return any(ref.name == DOCUMENT for ref in step_refs(step))
