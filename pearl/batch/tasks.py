"""The questions of a file as tasks, with their documents, which are read when they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from pearl.batch.questions import Index, Place, Question, read_document, read_questions
from pearl.batch.work import row_key
from pearl.jobs.task import Task
from pearl.source import Source

DOCUMENTS = 16
"""Documents held in memory beside those that are being read."""


@dataclass(frozen=True)
class Asking:
    """A question and its document."""

    question: Question
    document: Source


@dataclass(frozen=True)
class Questions:
    """A file's questions, those of one document together, so that an endpoint may keep it.

    Args:
        index: the file.
        ahead: as `Index.by_document` takes it.
    """

    index: Index
    ahead: int = 0

    @cached_property
    def _places(self) -> dict[str, Place]:
        return {place.id: place for place in self.index.by_document(self.ahead)}

    @property
    def ids(self) -> Sequence[str]:
        """Every question's, in the order to ask them in."""
        return tuple(self._places)

    def read(self, ids: Sequence[str]) -> Iterator[Task[Asking]]:
        """Questions with their documents, read when they are drawn.

        Raises:
            InputError: one cannot be read any more.
        """
        documents = _Documents(self.index)
        places = tuple(self._places[one] for one in ids)
        for place, question in read_questions(self.index, places):
            document = documents.get(place, question)
            key = row_key(question, document)
            asking = Asking(question, document)
            yield Task(place.id, place.position, key, place.document, asking)


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
