"""Questions about one document: QuALITY's, about long articles and stories, and the user's own.

Pang et al., "QuALITY: Question Answering with Long Input Texts, Yes!", NAACL
2022. Both its published files and rows that name PEARL's subset are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pearl.answer import check_options
from pearl.evaluate.datasets.base import (
    Dataset,
    Example,
    objects_in,
    with_unique_ids,
)
from pearl.jobs.answer_metrics import holds
from pearl.jobs.question_file import gold_problem, read_index
from pearl.lang.errors import InputError
from pearl.lang.source import Source
from pearl.lang.text import one_line
from pearl.prompts.calls import letter_of

CONTEXTS = ((3.5, "3.5 to 4"), (3.0, "3 to 3.5"), (0.0, "1 to 3"))
"""The groups of context scores, each with its least score and its label (PEARL, section 4)."""

LONG = 3.0
"""The least mean context score of a question in the long split (PEARL, section 3)."""


def read(path: str, folder: str = "") -> Iterator[Example]:
    """Every question of a file of JSON lines, an article each with its ``questions``.

    A question's split is the one in its row (``pearl_subset``). Without that it depends on the mean
    of the annotators' context scores (``untimed_eval2_context``: 1 for a sentence or two of the
    article, 4 for most or all of it): long from 3, short below, and ``other`` without any score.
    """

    def placed() -> Iterator[tuple[str, Example | InputError]]:
        for where, row in objects_in(path, "file of QuALITY articles"):
            if isinstance(row, InputError):
                yield where, row
                continue
            article, questions = row.get("article"), row.get("questions")
            if (
                not isinstance(article, str)
                or not article.strip()
                or not isinstance(questions, list)
            ):
                wrong = f"{where} has no article with questions: give QuALITY's own rows."
                yield where, InputError(wrong)
                continue
            title = str(row.get("title") or row.get("article_id") or where)
            document = Source(one_line(title), article)
            for number, question in enumerate(questions, 1):
                place = f"{where}, question {number}"
                try:
                    if not isinstance(question, dict):
                        raise InputError(f"{place} is no object.")
                    yield place, _example(question, place, document, row)
                except InputError as error:
                    yield place, error

    yield from with_unique_ids(placed())


def score(example: Example, answer: str) -> float:
    """1 for the right option's letter, else 0."""
    return float(answer == example.gold)


def _example(row: dict[str, Any], where: str, document: Source, article: dict[str, Any]) -> Example:
    question = row.get("question")
    if not isinstance(question, str) or not question.strip():
        raise InputError(f"{where} has no question.")
    options = check_options(row.get("options"), where)
    validation = row.get("validation")
    values = [
        annotation.get("untimed_eval2_context")
        for annotation in (validation if isinstance(validation, list) else ())
        if isinstance(annotation, dict)
    ]
    scores = [vote for vote in values if type(vote) is int or type(vote) is float]
    labels, split = {}, "other"
    if scores:
        context = sum(scores) / len(scores)
        labels["context"] = (next(name for least, name in CONTEXTS if context >= least),)
        split = "long" if context >= LONG else "short"
    if "pearl_subset" in row:
        subset = str(row["pearl_subset"] or "")
        split = next((split for split in ("long", "short") if subset.endswith(split)), "other")
    source = article.get("source") or article.get("text_source")
    if isinstance(source, str) and "source" in article:
        labels["source"] = (source,)
    number = row.get("gold_label")
    # The test set's rows have none.
    if number is not None and (type(number) is not int or not 1 <= number <= len(options)):
        raise InputError(f"{where}: gold_label is to be a number from 1 to {len(options)}.")
    names = (row.get(key) for key in ("question_unique_id", "qid"))
    ids = (str(name) for name in names if type(name) in (str, int) and str(name).strip())
    return Example(
        id=next(ids, where),
        question=one_line(question),
        document=document,
        options=tuple(options),
        gold="" if number is None else letter_of(options, number - 1),
        split=split,
        labels=labels,
    )


QUALITY = Dataset(
    "quality",
    "QuALITY",
    read,
    score,
    "https://github.com/nyu-mll/quality (QuALITY.v1.0.1.htmlstripped.dev)",
    ("zero-shot", "cot", "mcq", "pearl"),
    splits=("long", "short", "other"),
)


def read_own(path: str, folder: str = "") -> Iterator[Example]:
    """Every question of a file, those of one document together.

    A row has ``id``, ``question``, ``document``, ``gold``, for multiple choice ``options``, and
    where questions are told apart ``split`` and ``labels``. One without a question or a gold
    answer cannot be used.
    """
    index = read_index(path, folder, problem=gold_problem)
    document: tuple[str, Source] | None = None
    for place, question in index.questions(index.ids):
        if document is None or document[0] != place.document:
            document = (place.document, index.document(question))
        asked = (question.id, question.question, document[1], question.options, question.gold)
        kinds = (question.split, question.labels)
        yield Example(*asked, *kinds, accepted=question.accepted)


def score_own(example: Example, answer: str) -> float:
    """1 for the right option's letter, or for an answer that holds a gold one; else 0."""
    if example.options:
        return float(answer == example.gold)
    return float(holds(answer, *example.golds))


OWN = Dataset(
    "questions",
    "Own questions",
    read_own,
    score_own,
    "one of yours: docs/batch.md says what a row has",
    ("zero-shot", "cot", "pearl"),
)
