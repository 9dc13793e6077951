"""QuALITY: multiple-choice questions about long articles and stories.

Pang et al., "QuALITY: Question Answering with Long Input Texts, Yes!", NAACL
2022. Both the published files and rows that name PEARL's subset are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pearl.answer import check_options
from pearl.evaluate.datasets.base import Dataset, Example
from pearl.lang.source import InputError, Source, read_rows
from pearl.prompts.calls import letter

LONG = 3.0
"""The mean context score from which a question belongs to the long split (PEARL, section 3)."""

_SUBSETS = {"long": "long", "short": "short"}


def read(path: str, folder: str = "") -> Iterator[Example]:
    """Every question of a file, one article a line.

    A question's split is what its row says (``pearl_subset``). Else it
    follows from its context score, the mean of what the annotators said
    (``untimed_eval2_context``: 1 for a sentence or two, 4 for most or all of
    the article): long from 3, short below. Without either it is ``other``.

    Raises:
        InputError: a line cannot be used.
    """
    del folder
    seen: dict[str, str] = {}
    for name, row in read_rows(path, "file of QuALITY articles"):
        article = row.get("article")
        asked = row.get("questions")
        if not isinstance(article, str) or not article.strip() or not isinstance(asked, list):
            raise InputError(f"{name} has no article with questions: give QuALITY's own rows.")
        title = str(row.get("title") or row.get("article_id") or name)
        document = Source(" ".join(title.split()), article)
        for at, one in enumerate(asked, 1):
            if not isinstance(one, dict):
                raise InputError(f"{name}, question {at} is no object.")
            example = _example(one, f"{name}, question {at}", document, row)
            if example.id in seen:
                raise InputError(
                    f"{name}, question {at} has the id {example.id}, as {seen[example.id]} has."
                )
            seen[example.id] = f"{name}, question {at}"
            yield example


def score(example: Example, answer: str) -> float:
    """1 for the right option's letter, else 0."""
    return float(answer == example.gold)


def _example(row: dict[str, Any], name: str, document: Source, article: dict[str, Any]) -> Example:
    question = row.get("question")
    if not isinstance(question, str) or not question.strip():
        raise InputError(f"{name} has no question.")
    options = row.get("options")
    if not isinstance(options, list) or not all(isinstance(one, str) for one in options):
        raise InputError(f"{name}: options is to be a list of texts.")
    try:
        check_options(options)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    context = _context_score(row)
    labels = {}
    source = article.get("source") or article.get("text_source")
    if context is not None:
        labels["context"] = (_bin(context),)
    if isinstance(source, str) and "source" in article:
        labels["source"] = (source,)
    return Example(
        id=_id(row, name),
        question=" ".join(question.split()),
        document=document,
        options=tuple(options),
        gold=_gold(row, options, name),
        split=_split(row, context),
        labels=labels,
    )


def _id(row: Mapping[str, Any], name: str) -> str:
    for key in ("question_unique_id", "qid"):
        given = row.get(key)
        if isinstance(given, str | int) and not isinstance(given, bool) and str(given).strip():
            return str(given)
    return name


def _gold(row: Mapping[str, Any], options: list[str], name: str) -> str:
    """The right option's letter; the test set's rows have none."""
    given = row.get("gold_label")
    if given is None:
        return ""
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= len(options):
        raise InputError(f"{name}: gold_label is to be a number from 1 to {len(options)}.")
    return letter(given - 1)


def _split(row: Mapping[str, Any], context: float | None) -> str:
    if "pearl_subset" in row:
        subset = str(row["pearl_subset"] or "")
        return next((split for end, split in _SUBSETS.items() if subset.endswith(end)), "other")
    if context is None:
        return "other"
    return "long" if context >= LONG else "short"


def _context_score(row: Mapping[str, Any]) -> float | None:
    validation = row.get("validation")
    given = [
        one.get("untimed_eval2_context")
        for one in (validation if isinstance(validation, list) else ())
        if isinstance(one, dict)
    ]
    scores = [one for one in given if isinstance(one, int | float) and not isinstance(one, bool)]
    return sum(scores) / len(scores) if scores else None


def _bin(context: float) -> str:
    """Which part of the scale a mean score lies in."""
    low = min(3, int(context))
    return f"{low} to {low + 1}"


DATASET = Dataset(
    "quality",
    "QuALITY",
    ("long", "short", "other"),
    read,
    score,
    "https://github.com/nyu-mll/quality (QuALITY.v1.0.1.htmlstripped.dev)",
)
