"""What an earlier go has done, and what is left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pearl.jobs.tally import Tally
from pearl.jobs.task import Tasks
from pearl.store import Store
from pearl.store.history import read_row_keys, read_rows


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a job.

    Args:
        ids: of the tasks to be done, in order.
        kept: of those whose row of an earlier go holds.
    """

    ids: tuple[str, ...]
    kept: frozenset[str]


async def take_up(tasks: Tasks[Any], store: Store, run: str, tally: Tally) -> Left:
    """Look at what an earlier go of a run has done.

    A row holds while what it was asked is what it was.

    Args:
        tasks: all there are.
        store: where the run is kept.
        run: its name.
        tally: to count what holds in.

    Raises:
        InputError: a task cannot be read.
    """
    kept = _holding(tasks, store, run)
    await store.flush()
    for row in stored_rows(store, run, kept):
        tally.count_row(row)
    tally.before = tally.finished
    return Left(tuple(one for one in tasks.ids if one not in kept), kept)


def stored_rows(
    store: Store, run: str, only: frozenset[str] | None = None
) -> Iterator[dict[str, Any]]:
    """A run's rows in the order of the tasks, all of them or some."""
    rows = read_rows(store.engine, run)
    return (row for name, row in rows if only is None or name in only)


def _holding(tasks: Tasks[Any], store: Store, run: str) -> frozenset[str]:
    earlier = read_row_keys(store.engine, run)
    if not earlier:
        return frozenset()
    holds: set[str] = set()
    known = tuple(one for one in tasks.ids if one in earlier)
    for task in tasks.read(known):
        row = earlier[task.id]
        if row.key == task.key:
            if row.position != task.position:
                store.move_row(run, task.id, task.position)
            if row.status == "answered":
                holds.add(task.id)
        else:
            store.drop_row(run, task.id)
    for name in earlier.keys() - set(known):
        store.drop_row(run, name)
    return frozenset(holds)
