"""Does tasks, many at a time, and keeps their rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pearl.context import Context
from pearl.engine import Engine
from pearl.jobs.output import line_of
from pearl.jobs.tally import Tally
from pearl.jobs.task import Task, Work
from pearl.llm import ModelError
from pearl.session import Session
from pearl.source import InputError
from pearl.store import Store
from pearl.store.store import storable


@dataclass(frozen=True)
class Crew:
    """What doing takes.

    Args:
        work: what is done with each task.
        context: how much fits a prompt.
        engine: the model in its layers.
        store: where runs and replies are kept.
        run: the run's name.
        together: tasks under way at a time, at most.
        tally: how far it is.
        changed: told of each change.
    """

    work: Work
    context: Context
    engine: Engine
    store: Store
    run: str
    together: int
    tally: Tally
    changed: Callable[[Tally], None] = lambda _: None


async def do_all(
    crew: Crew, todo: Iterator[Task[Any]], done: Callable[[dict[str, Any]], None]
) -> None:
    """Do tasks, until there are none, or nothing more can be asked.

    Args:
        crew: who does them.
        todo: the tasks, drawn as there is room.
        done: told each row, which is kept by then.

    What keeps the rest from being done, as a document that cannot be read
    any more, stops the engine; calls under way, which are paid for, still
    come to their end.
    """
    drawn = _drawn(crew, todo)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(crew.together):
                group.create_task(_work(crew, drawn, done))
    except ExceptionGroup as several:
        raise several.exceptions[0] from None
    await crew.store.flush()


def _drawn(crew: Crew, todo: Iterator[Task[Any]]) -> Iterator[Task[Any]]:
    try:
        yield from todo
    except InputError as error:
        crew.engine.stop(ModelError("input", str(error)))


async def _work(
    crew: Crew, todo: Iterator[Task[Any]], done: Callable[[dict[str, Any]], None]
) -> None:
    tally = crew.tally
    for task in todo:
        if _over(crew):
            return
        tally.running += 1
        crew.changed(tally)
        journal = crew.store.journal(crew.run, task.id)
        try:
            row = await crew.work(task, Session(crew.engine, journal, crew.context))
        finally:
            tally.running -= 1
            for entry in journal.entries:
                tally.count_call(entry)
        if row["status"] == "failed" and _over(crew):
            # It did not fail: it was not let finish, and is tried again in the next go.
            return
        crew.store.put_row(_stored(crew, task, row))
        await crew.store.flush()
        try:
            done(row)
        except InputError as error:
            crew.engine.stop(ModelError("input", str(error)))
        tally.count_row(row)
        crew.changed(tally)


def _over(crew: Crew) -> bool:
    return crew.engine.stopped is not None


def _stored(crew: Crew, task: Task[Any], row: dict[str, Any]) -> dict[str, Any]:
    return {
        "run": crew.run,
        "id": task.id,
        "position": task.position,
        "row_key": task.key,
        "status": row["status"],
        "result": storable(line_of(row).rstrip("\n")),
    }
