"""What plans look like: how long they are, and which actions they call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pearl.syntax import parse

MOST_USED = 10


@dataclass(frozen=True, slots=True)
class PlanStatistics:
    """Plans in figures.

    Args:
        plans: how many have at least one step.
        empty: how many texts have none.
        steps: a plan, on average.
        distinct: different actions a plan, on average.
        actions: how many steps call each action, the most used first; equally
            used ones by name.
        invented: how many plans declare each action that the library lacks.
        inventing: how many plans declare one.
    """

    plans: int
    empty: int
    steps: float
    distinct: float
    actions: Mapping[str, int]
    invented: Mapping[str, int]
    inventing: int

    @property
    def top(self) -> tuple[tuple[str, int], ...]:
        """The ten most used actions, with how many steps call them."""
        return tuple(self.actions.items())[:MOST_USED]


def plan_statistics(texts: Iterable[str]) -> PlanStatistics:
    """Count steps and actions.

    Args:
        texts: plans, as models or Pearl wrote them.
    """
    plans = empty = steps = distinct = inventing = 0
    used, invented = Counter[str](), Counter[str]()
    for text in texts:
        plan = parse(text).plan
        if not plan.steps:
            empty += 1
            continue
        called = Counter(step.action for step in plan.steps)
        plans += 1
        steps += called.total()
        distinct += len(called)
        used += called
        declared = {action.name for action in plan.declares}
        invented.update(declared)
        inventing += bool(declared)
    return PlanStatistics(
        plans=plans,
        empty=empty,
        steps=steps / plans if plans else 0.0,
        distinct=distinct / plans if plans else 0.0,
        actions=_by_count(used),
        invented=_by_count(invented),
        inventing=inventing,
    )


def _by_count(found: Counter[str]) -> dict[str, int]:
    return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))
