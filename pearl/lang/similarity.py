"""How alike actions are: a matrix, groups of similar actions, and which of a group stays."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pearl.lang.ast import DOCUMENT, Action
from pearl.lang.definitions import (
    GENERAL,
    ParsedDefinition,
    basic,
    lines_of,
    narrow,
    opposed,
    params_of,
    read_action,
    synonyms,
)

if TYPE_CHECKING:
    import numpy as np


SURE, FLOOR, NEAR = 0.85, 0.41, 0.7
"""The likeness above which two actions are almost certainly the same, the one below which they
are kept apart, and that of two synonyms."""


_ASKING = frozenset(("where", "when", "who", "whom", "whose", "how", "why"))
"""Words that ask for different things, whatever follows them."""


def likeness(actions: Sequence[Action]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """How alike each action is to each other one.

    It is the cosine of their words' weights, which are higher for rare words
    (idf); a synonym counts almost as much as the word itself. It is lower where
    two actions take other parameters, or find other things.

    Args:
        actions: n actions.

    Returns:
        n × n numbers from 0 to 1; minus infinity where two must stay apart
        (another type, a negation, opposites), and on the diagonal.
    """
    import numpy as np

    readings = [read_action(action) for action in actions]
    rows = _vectors(readings)
    matrix: np.ndarray[Any, np.dtype[np.float64]] = rows @ rows.T
    for at in range(len(actions)):
        for to in range(at):
            pair = (actions[at], actions[to]), (readings[at], readings[to])
            matrix[at, to] = matrix[to, at] = _fitted(float(matrix[at, to]), *pair)
    np.fill_diagonal(matrix, -math.inf)
    return matrix


def _vectors(readings: Sequence[ParsedDefinition]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A unit vector for each action, over the words and the lines of synonyms they stand in."""
    import numpy as np

    lines_by_word = lines_of()
    counts = Counter(word for reading in readings for word, _ in reading.bag)
    places: dict[str | int, int] = {}
    cells: list[tuple[int, int, float]] = []
    for row, reading in enumerate(readings):
        for word, weight in reading.bag:
            worth = weight * math.log(1 + len(readings) / counts[word])
            lines = lines_by_word.get(word, frozenset())
            own = worth * math.sqrt(1 - NEAR) if lines else worth
            cells.append((row, places.setdefault(word, len(places)), own))
            shared = worth * math.sqrt(NEAR) / max(1, len(lines)) ** 0.25
            cells += [(row, places.setdefault(line, len(places)), shared) for line in lines]
    matrix = np.zeros((len(readings), max(1, len(places))))
    for row, column, worth in cells:
        matrix[row, column] += worth
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.asarray(matrix / np.maximum(lengths, 1e-9))


def _fitted(
    value: float,
    actions: tuple[Action, Action],
    readings: tuple[ParsedDefinition, ParsedDefinition],
) -> float:
    """The likeness of two actions: that of their words, lowered where other facts differ."""
    this, other = actions
    if this.name == other.name and this.params == other.params and this.returns == other.returns:
        return 1.0
    if _kind(this) != _kind(other) or readings[0].marks != readings[1].marks:
        return -math.inf
    if opposed(readings[0].topic, readings[1].topic):
        return -math.inf
    if len({reading.clause for reading in readings} & _ASKING) > 1:
        return -math.inf
    ours, theirs = (len(params_of(action)) for action in actions)
    if ours != theirs:
        # An action that takes only the document has no argument for the other.
        value = -math.inf if 0 in (ours, theirs) else value * 0.7
    else:
        value *= 1.0 if _roles(this) == _roles(other) else 0.7
        value *= 0.85 if ours > 1 and _between(this) != _between(other) else 1.0
    if not this.doc or not other.doc:
        value *= 0.8
    elif len({(reading.wide, bool(reading.clause)) for reading in readings}) > 1:
        value *= 0.6
    heads = [
        {basic(word) for head in reading.heads if (word := head.split()[-1].lower()) not in GENERAL}
        for reading in readings
    ]
    if all(heads) and not any(synonyms(head) & heads[1] for head in heads[0]):
        value *= 0.75
    return value


def _kind(action: Action) -> tuple[Any, ...]:
    """What two actions must have in common to be merged, in a form that can be compared."""
    typed = tuple(param for param in action.params if param.type not in ("any", "text"))
    reads = any(param.name == DOCUMENT for param in action.params)
    # A last parameter that repeats can be given to no other.
    own = action.name if action.variadic else ""
    return action.returns, action.traits, action.body, action.model, reads, typed, own


def _roles(action: Action) -> frozenset[str]:
    """The parameters whose names say what they are for, as LIST does and X does not."""
    return frozenset(basic(name) for name in params_of(action) if len(name) > 2)


def _between(action: Action) -> bool:
    """Whether an action treats its first two parameters alike, as in *between X and Y*."""
    first, second, *_ = params_of(action)
    mention = rf"\b{re.escape(first)}(?:, \w+)*,? and {re.escape(second)}\b"
    return bool(re.search(mention, action.doc))


def group(actions: Sequence[Action], target: int, floor: float = FLOOR) -> list[list[int]]:
    """Merge the most similar actions until few enough groups are left (average linkage).

    Args:
        actions: n actions.
        target: how many groups are wanted, at most; two actions of one name
            and the same parameters are always one.
        floor: the likeness below which nothing is merged.

    Returns:
        The groups, each a list of indices of ``actions``, ordered by their first members.
    """
    import numpy as np

    matrix = likeness(actions)
    groups = [[at] for at in range(len(actions))]
    count = len(groups)
    while count > 1:
        first, second = (int(at) for at in np.unravel_index(np.argmax(matrix), matrix.shape))
        if matrix[first, second] < (1.0 if count <= target else floor):
            break
        ours, theirs = len(groups[first]), len(groups[second])
        row = (matrix[first] * ours + matrix[second] * theirs) / (ours + theirs)
        row[[first, second]] = -math.inf
        matrix[first], matrix[:, first] = row, row
        matrix[second], matrix[:, second] = -math.inf, -math.inf
        groups[first] += groups[second]
        groups[second] = []
        count -= 1
    return sorted(sorted(members) for members in groups if members)


def clearest(actions: Sequence[Action]) -> int:
    """The index of the action that is to replace a group of similar ones.

    It has the fewest parameters, as the others' can be joined, and a definition if
    one of them has. Of these, it is the one that the most questions proposed, and
    then the one that the others resemble most.
    """
    if len(actions) == 1:
        return 0
    matrix = likeness(actions)
    matrix[matrix == -math.inf] = 0.0
    fewest = min(len(params_of(action)) for action in actions)

    def rank(at: int) -> tuple[Any, ...]:
        action = actions[at]
        central = float(matrix[at].mean()) - 0.1 * narrow(action)
        ready = len(params_of(action)) == fewest, bool(action.doc), bool(read_action(action).heads)
        return (*ready, len(set(action.provenance)), round(central, 6), -at)

    return max(range(len(actions)), key=rank)
