"""Condensing with a model: rounds of like actions put to it together (PEARL, section 2.1)."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pearl.alike import SURE, group
from pearl.context import Context
from pearl.llm import CondenseActions, Reply
from pearl.mining.condense import begin, finished, folded, merged
from pearl.mining.covering import Condensed, Note
from pearl.mining.replies import read_reply
from pearl.mining.settling import Settled, applied, settle
from pearl.plan import Action
from pearl.render import Report
from pearl.runtime import Caller
from pearl.syntax.printer import print_action

ROOM = 3000
"""Tokens of actions in one prompt, at most; a reply may take as many."""

_COARSE = (0.1, 0.2, 0.3, 0.41, 0.55, 0.7)
"""Likenesses from which on actions go to the model together; a cluster too large for
a prompt is cut where the next one cuts it."""


@dataclass(frozen=True, slots=True)
class Round:
    """How far one round came.

    Args:
        number: from 1 on.
        shards: the calls it made.
        before: actions at its start.
        after: actions at its end.
    """

    number: int
    shards: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Rounds:
    """What came of condensing with a model.

    Args:
        condensed: the library.
        rounds: each round.
        reports: the lines of replies that cannot be read.
    """

    condensed: Condensed
    rounds: tuple[Round, ...]
    reports: tuple[Report, ...]


async def condense_with(
    actions: Sequence[Action],
    target: int,
    ask: Caller,
    *,
    rounds: int = 4,
    seeds: Mapping[str, Action] | None = None,
    context: Context | None = None,
) -> Rounds:
    """Condense an action library with a model.

    Near-certain merges are made first, without it. What the model leaves over the
    target the deterministic condenser finishes, and says so.

    Args:
        actions: the library.
        target: how many actions are wanted, at most. Builtins do not count.
        ask: puts a call to the model, and keeps the journal.
        rounds: how often the model sees the whole of what is left, at most.
        seeds: actions that plans can call beside these, by name.
        context: how much fits a prompt.

    Raises:
        ModelError: the model gave no usable answer.
    """
    seeds = seeds or {}
    state = merged(begin(actions, seeds), target, SURE)
    made: list[Round] = []
    reports: list[Report] = []
    for number in range(1, rounds + 1):
        before = len(state.actions)
        if before <= target:
            break
        parts = shards(state.actions, number, context)
        calls = [
            CondenseActions(part, max(1, math.ceil(len(part) * target / before))) for part in parts
        ]
        replies = await asyncio.gather(
            *(ask(call, f"condense/{number}/{at}") for at, call in enumerate(calls, 1))
        )
        told = [
            _settled(call, reply, f"condense/{number}/{at}", ask.journal.decide, reports)
            for at, (call, reply) in enumerate(zip(calls, replies, strict=True), 1)
        ]
        after = applied(state, told, seeds)
        made.append(Round(number, len(parts), before, len(after.actions)))
        if len(after.actions) >= before:
            text = f"Round {number} brought nothing: what the model wrote is left out."
            state = replace(state, notes=(*after.notes, Note("round", text)))
            break
        state = after
    if len(state.actions) > target:
        text = (
            f"The model left {len(state.actions)} actions, not {target}: the rest was condensed "
            "without it."
        )
        state = replace(state, notes=(*state.notes, Note("round", text)))
        state = folded(merged(state, target), target)
    return Rounds(finished(state, seeds, target), tuple(made), tuple(reports))


def _settled(
    call: CondenseActions,
    reply: Reply,
    path: str,
    decide: Callable[[str, object], None],
    reports: list[Report],
) -> Settled:
    """What one reply comes to; what was left out of it is in the journal."""
    read = read_reply(reply.text, path)
    if read.aside:
        decide(f"{path}/aside", list(read.aside))
    if read.findings:
        reports.append(Report(read.source, read.findings))
    settled = settle(call.actions, read.proposed)
    if not reply.complete:
        text = "A reply was cut at its token limit: the actions it does not reach stay."
        settled = replace(settled, notes=(*settled.notes, Note("uncovered", text)))
    return settled


def shards(
    actions: Sequence[Action], number: int, context: Context | None = None
) -> list[tuple[Action, ...]]:
    """The actions for each call of a round: like ones together.

    Clusters are shuffled, anew in each round, so that other ones meet; a cluster is
    cut only where it does not fit a prompt, and then into clusters.

    Args:
        actions: all that are left.
        number: the round's, from 1 on.
        context: how much fits a prompt.
    """
    room, count = _room(context)
    sizes = [count(print_action(action)) for action in actions]
    clusters = _clusters(actions, list(range(len(actions))), sizes, room, _COARSE)
    # Not for secrets: the same shuffle every time, so that a run can be gone on with.
    random.Random(number).shuffle(clusters)  # noqa: S311
    found: list[list[int]] = []
    left = 0
    for cluster in clusters:
        size = sum(sizes[at] for at in cluster)
        if not found or size > left:
            found.append([])
            left = room
        found[-1] += cluster
        left -= size
    return [tuple(actions[at] for at in sorted(part)) for part in found]


def _clusters(
    actions: Sequence[Action], places: list[int], sizes: Sequence[int], room: int,
    floors: Sequence[float],
) -> list[list[int]]:  # fmt: skip
    if sum(sizes[at] for at in places) <= room and len(floors) < len(_COARSE):
        return [places]
    if not floors or len(places) == 1:
        return _cut(places, sizes, room)
    members = [actions[at] for at in places]
    found: list[list[int]] = []
    for part in group(members, 1, floors[0]):
        inner = [places[at] for at in part]
        found += _clusters(actions, inner, sizes, room, floors[1:])
    return found


def _cut(places: Sequence[int], sizes: Sequence[int], room: int) -> list[list[int]]:
    """Actions that are all alike, as many at a time as fit."""
    found: list[list[int]] = [[]]
    left = room
    for at in places:
        if found[-1] and sizes[at] > left:
            found.append([])
            left = room
        found[-1].append(at)
        left -= sizes[at]
    return found


def _room(context: Context | None) -> tuple[int, Callable[[str], int]]:
    """Tokens for the actions of one prompt, and what counts them."""
    if context is None:
        return ROOM, lambda text: len(text.encode()) // 3 + 1
    room = min(ROOM, context.reply * 2 // 3)
    if context.window:
        room = min(room, (context.window - context.reply) // 2)
    return max(200, room), context.count
