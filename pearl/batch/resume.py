"""What an earlier go has done, and what is left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pearl.batch.crew import Task
from pearl.batch.questions import Index, Place, Question, read_document, read_questions
from pearl.batch.tally import Tally
from pearl.batch.work import row_key
from pearl.source import Source
from pearl.store import Store
from pearl.store.history import read_row_keys, read_rows

DOCUMENTS = 16
"""Documents held in memory beside those that are being read."""


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a file of questions.

    Args:
        places: the questions to be asked, in the order to ask them in.
        kept: the ids of those whose answer of an earlier go holds.
    """

    places: tuple[Place, ...]
    kept: frozenset[str]


async def take_up(index: Index, store: Store, run: str, tally: Tally, ahead: int) -> Left:
    """Look at what an earlier go of a run has done.

    An answer holds while its question and its document are what they were.

    Args:
        index: the questions.
        store: where the run is kept.
        run: its name.
        tally: to count what holds in.
        ahead: as `Index.by_document` takes it.

    Raises:
        InputError: a question or a document cannot be read.
    """
    places = index.by_document(ahead)
    kept = _holding(index, places, store, run)
    await store.flush()
    for row in stored_rows(store, run, kept):
        tally.count_row(row)
    tally.before = tally.finished
    return Left(tuple(place for place in places if place.id not in kept), kept)


def stored_rows(
    store: Store, run: str, only: frozenset[str] | None = None
) -> Iterator[dict[str, Any]]:
    """A run's rows in the order of the questions, all of them or some."""
    rows = read_rows(store.engine, run)
    return (row for name, row in rows if only is None or name in only)


def tasks(index: Index, places: tuple[Place, ...]) -> Iterator[Task]:
    """Questions with their documents, read when they are drawn.

    Raises:
        InputError: one cannot be read any more.
    """
    documents = _Documents(index)
    for place, question in read_questions(index, places):
        yield Task(place.position, question, documents.get(place, question))


def _holding(index: Index, places: tuple[Place, ...], store: Store, run: str) -> frozenset[str]:
    earlier = read_row_keys(store.engine, run)
    if not earlier:
        return frozenset()
    documents = _Documents(index)
    holds: set[str] = set()
    known = tuple(place for place in places if place.id in earlier)
    for place, question in read_questions(index, known):
        row = earlier[place.id]
        if row.key == row_key(question, documents.get(place, question)):
            if row.position != place.position:
                store.move_row(run, place.id, place.position)
            if row.status == "answered":
                holds.add(place.id)
        else:
            store.drop_row(run, place.id)
    for name in earlier.keys() - {place.id for place in known}:
        store.drop_row(run, name)
    return frozenset(holds)


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
