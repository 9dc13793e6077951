"""Who judges which plan: so many people a plan, everybody about as many plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations


def deal(
    plans: Sequence[str],
    people: Sequence[int],
    overlap: int,
    kept: Mapping[str, Sequence[int]],
) -> dict[str, tuple[int, ...]]:
    """Deal plans out to people. The same question has the same answer.

    Each plan goes to those who have the fewest; among these to those who have
    been together the least, so that everybody can be compared with everybody.

    Args:
        plans: their ids, in order.
        people: their numbers, in order.
        overlap: how many people a plan is to have; all, where there are fewer.
        kept: who has a plan already, by plan; they keep it.

    Returns:
        Who has each plan, in the order of the plans.
    """
    wanted = min(overlap, len(people))
    load = Counter(dict.fromkeys(people, 0))
    together: Counter[tuple[int, int]] = Counter()
    for plan in plans:
        _count(kept.get(plan, ()), load, together)
    found: dict[str, tuple[int, ...]] = {}
    for plan in plans:
        chosen = list(kept.get(plan, ()))
        while len(chosen) < wanted:
            free = [person for person in people if person not in chosen]
            if not free:
                break
            best = min(
                free,
                key=lambda one: (
                    load[one],
                    sum(together[_pair(one, other)] for other in chosen),
                    people.index(one),
                ),
            )
            load[best] += 1
            together.update(_pair(best, other) for other in chosen)
            chosen.append(best)
        found[plan] = tuple(chosen)
    return found


def _count(chosen: Sequence[int], load: Counter[int], together: Counter[tuple[int, int]]) -> None:
    load.update(chosen)
    together.update(_pair(one, other) for one, other in combinations(chosen, 2))


def _pair(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)
