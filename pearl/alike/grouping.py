"""Groups of like actions, and which of a group stays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pearl.alike.likeness import FLOOR, likeness
from pearl.alike.reading import given, narrow, read_action
from pearl.plan import Action


def group(actions: Sequence[Action], target: int, floor: float = FLOOR) -> list[list[int]]:
    """Put the most alike together until few enough groups are left (average linkage).

    Args:
        actions: n actions.
        target: how many groups are wanted, at most; two actions of one name
            and the same parameters are always one.
        floor: the likeness below which nothing is put together.

    Returns:
        The groups, places in ``actions``, in the order of their first members.
    """
    import numpy as np

    matrix = likeness(actions)
    groups = [[at] for at in range(len(actions))]
    left = len(groups)
    while left > 1:
        one, other = (int(at) for at in np.unravel_index(np.argmax(matrix), matrix.shape))
        if matrix[one, other] < (1.0 if left <= target else floor):
            break
        ours, theirs = len(groups[one]), len(groups[other])
        row = (matrix[one] * ours + matrix[other] * theirs) / (ours + theirs)
        row[[one, other]] = -math.inf
        matrix[one], matrix[:, one] = row, row
        matrix[other], matrix[:, other] = -math.inf, -math.inf
        groups[one] += groups[other]
        groups[other] = []
        left -= 1
    return sorted(sorted(members) for members in groups if members)


def clearest(actions: Sequence[Action]) -> int:
    """The place of the action that stays for some like ones.

    That is the one most questions proposed, and then the one the others resemble
    most. One with fewer parameters comes first, as the others' can be joined, and
    one without a definition last.
    """
    if len(actions) == 1:
        return 0
    matrix = likeness(actions)
    matrix[matrix == -math.inf] = 0.0
    fewest = min(len(given(action)) for action in actions)

    def rank(at: int) -> tuple[Any, ...]:
        action = actions[at]
        central = float(matrix[at].mean()) - 0.1 * narrow(action)
        ready = len(given(action)) == fewest, bool(action.doc), bool(read_action(action).heads)
        return (*ready, len(set(action.provenance)), round(central, 6), -at)

    return max(range(len(actions)), key=rank)
