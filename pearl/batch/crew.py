"""Answers questions, many at a time, and keeps their rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from pearl.batch.output import line_of
from pearl.batch.questions import Question
from pearl.batch.tally import Tally
from pearl.batch.work import Setup, answer_row, row_key
from pearl.engine import Engine
from pearl.llm import ModelError
from pearl.session import Session
from pearl.source import InputError, Source
from pearl.store import Store
from pearl.store.store import storable


class Task(NamedTuple):
    """A question to be answered, its place in the file, and its document."""

    position: int
    question: Question
    document: Source


@dataclass(frozen=True)
class Crew:
    """What answering takes.

    Args:
        setup: how questions are answered.
        engine: the model in its layers.
        store: where runs and replies are kept.
        run: the run's name.
        together: questions under way at a time, at most.
        tally: how far it is.
        changed: told of each change.
    """

    setup: Setup
    engine: Engine
    store: Store
    run: str
    together: int
    tally: Tally
    changed: Callable[[Tally], None] = lambda _: None


async def answer_all(
    crew: Crew, todo: Iterator[Task], done: Callable[[dict[str, Any]], None]
) -> None:
    """Answer questions, until there are none, or nothing more can be asked.

    Args:
        crew: who answers.
        todo: the questions, drawn as there is room.
        done: told each row, which is kept by then.

    What keeps the rest from being answered, as a document that cannot be read
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


def _drawn(crew: Crew, todo: Iterator[Task]) -> Iterator[Task]:
    try:
        yield from todo
    except InputError as error:
        crew.engine.stop(ModelError("input", str(error)))


async def _work(crew: Crew, todo: Iterator[Task], done: Callable[[dict[str, Any]], None]) -> None:
    tally = crew.tally
    for task in todo:
        if _over(crew):
            return
        tally.running += 1
        crew.changed(tally)
        journal = crew.store.journal(crew.run, task.question.id)
        try:
            session = Session(crew.engine, journal, crew.setup.context)
            row = await answer_row(task.question, task.document, crew.setup, session)
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


def _stored(crew: Crew, task: Task, row: dict[str, Any]) -> dict[str, Any]:
    return {
        "run": crew.run,
        "id": task.question.id,
        "position": task.position,
        "row_key": row_key(task.question, task.document),
        "status": row["status"],
        "result": storable(line_of(row).rstrip("\n")),
    }
