"""Runs the questions of a file, so that it can be stopped at any time and gone on with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pearl.batch.output import Output, line_of
from pearl.batch.questions import Index, Place, Question, read_document, read_questions
from pearl.batch.tally import Tally
from pearl.batch.work import Setup, answer_row, row_key
from pearl.engine import Engine
from pearl.llm import ModelError
from pearl.session import Session
from pearl.source import InputError, Source
from pearl.store import Store
from pearl.store.history import read_row_keys, read_rows

DOCUMENTS = 16
"""Documents held in memory beside those that are being read."""


@dataclass(frozen=True)
class Batch:
    """A batch's work.

    Args:
        index: its questions.
        setup: how they are answered.
        engine: the model in its layers.
        store: where runs and replies are kept.
        run: the run's name.
        together: questions under way at a time, at most.
        tally: how far it is.
        changed: told of each change.
    """

    index: Index
    setup: Setup
    engine: Engine
    store: Store
    run: str
    together: int
    tally: Tally
    changed: Callable[[Tally], None] = lambda _: None


async def run_batch(batch: Batch, output: str) -> None:
    """Answer every question that has no answer yet, and write the file of answers.

    Questions of one document go together, so that an endpoint may keep what
    it read. A question that fails leaves the others alone; failed ones of an
    earlier go are tried again.

    Args:
        batch: what to do.
        output: the file of answers.

    Raises:
        InputError: the output cannot be written, or a document changed while
            the batch ran and cannot be read.
        ModelError: nothing more can be asked (`Engine.stopped` says why); what
            was answered until then is kept.
    """
    places, kept = _left(batch)
    await batch.store.flush()
    tally = batch.tally
    for row in _rows(batch, kept):
        tally.count_row(row)
    tally.before = tally.finished
    written = Output(output, _rows(batch, kept))
    batch.changed(tally)
    todo = _todo(batch, places)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(batch.together, len(places))):
                group.create_task(_work(batch, todo, written))
    except ExceptionGroup as several:
        raise several.exceptions[0] from None
    finally:
        await batch.store.flush()
        written.close(_rows(batch))
    stopped = batch.engine.stopped
    if stopped is not None:
        raise ModelError(stopped.reason, str(stopped))


def _rows(batch: Batch, only: set[str] | None = None) -> Iterator[dict[str, Any]]:
    """The rows in the order of the questions, of all of them or of some."""
    rows = read_rows(batch.store.engine, batch.run)
    return (row for name, row in rows if only is None or name in only)


def _left(batch: Batch) -> tuple[tuple[Place, ...], set[str]]:
    """The questions to be asked, and the ids of those whose answer of an earlier go holds."""
    places = batch.index.by_document(batch.together)
    earlier = read_row_keys(batch.store.engine, batch.run)
    if not earlier:
        return places, set()
    documents = _Documents(batch.index)
    holds: set[str] = set()
    known = tuple(place for place in places if place.id in earlier)
    for place, question in read_questions(batch.index, known):
        row = earlier[place.id]
        if row.key == row_key(question, documents.get(place, question)):
            if row.position != place.position:
                batch.store.move_row(batch.run, place.id, place.position)
            if row.status == "answered":
                holds.add(place.id)
        else:
            batch.store.drop_row(batch.run, place.id)
    for name in earlier.keys() - {place.id for place in known}:
        batch.store.drop_row(batch.run, name)
    return tuple(place for place in places if place.id not in holds), holds


def _todo(
    batch: Batch, places: tuple[Place, ...]
) -> Iterator[tuple[Place, Question, Source | InputError]]:
    documents = _Documents(batch.index)
    for place, question in read_questions(batch.index, places):
        try:
            yield place, question, documents.get(place, question)
        except InputError as error:
            yield place, question, error


class _Documents:
    """Documents by name; the last few stay, as questions of one document go together."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._held: dict[str, Source] = {}

    def get(self, place: Place, question: Question) -> Source:
        found = self._held.pop(place.document, None) or read_document(self._index, question)
        self._held[place.document] = found
        while len(self._held) > DOCUMENTS:
            del self._held[next(iter(self._held))]
        return found


async def _work(
    batch: Batch,
    todo: Iterator[tuple[Place, Question, Source | InputError]],
    written: Output,
) -> None:
    tally = batch.tally
    for place, question, document in todo:
        if _over(batch):
            return
        if isinstance(document, InputError):
            raise document
        tally.running += 1
        batch.changed(tally)
        journal = batch.store.journal(batch.run, question.id)
        try:
            row = await answer_row(
                question, document, batch.setup, Session(batch.engine, journal, batch.setup.context)
            )
        finally:
            tally.running -= 1
            for entry in journal.entries:
                tally.count_call(entry)
        if row["status"] == "failed" and _over(batch):
            # It did not fail: it was not let finish, and is tried again in the next go.
            return
        batch.store.put_row(_stored(batch, place, question, document, row))
        await batch.store.flush()
        written.add(row)
        tally.count_row(row)
        batch.changed(tally)


def _over(batch: Batch) -> bool:
    return batch.engine.stopped is not None


def _stored(
    batch: Batch, place: Place, question: Question, document: Source, row: dict[str, Any]
) -> dict[str, Any]:
    return {
        "run": batch.run,
        "id": question.id,
        "position": place.position,
        "row_key": row_key(question, document),
        "status": row["status"],
        "result": line_of(row).rstrip("\n").replace("\0", "\ufffd"),
    }
