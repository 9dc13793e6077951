"""A person's own questions, as ``pearl batch`` reads them."""

from __future__ import annotations

from collections.abc import Iterator

from pearl.answer import holds
from pearl.evaluate.datasets.base import Dataset, Example
from pearl.jobs.questions import read_index
from pearl.lang.source import InputError, Source


def read(path: str, folder: str = "") -> Iterator[Example]:
    """Every question of a file, those of one document together.

    A row has ``id``, ``question``, ``document``, ``gold`` and, for multiple choice, ``options``.
    One without a question or a gold answer cannot be used.
    """
    index = read_index(path, folder)
    document: tuple[str, Source] | None = None
    for place, question in index.questions(index.ids):
        if not question.question or not question.gold:
            raise InputError(
                f"{path}: question {question.id} cannot be scored: give each a question and its "
                "gold answer."
            )
        if document is None or document[0] != place.document:
            document = (place.document, index.document(question))
        yield Example(question.id, question.question, document[1], question.options, question.gold)


def score(example: Example, answer: str) -> float:
    """1 for the right option's letter, or for an answer that holds the gold one; else 0."""
    if example.options:
        return float(answer == example.gold)
    return float(holds(answer, example.gold))


DATASET = Dataset(
    "questions",
    "Own questions",
    read,
    score,
    "one of yours: docs/batch.md says what a row has",
    ("zero-shot", "cot", "pearl"),
)
