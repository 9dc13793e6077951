"""Compositional Celebrities: two facts about a well-known person, one after the other.

Press et al., "Measuring and Narrowing the Compositionality Gap in Language
Models", Findings of EMNLP 2023; scored as REBEL's authors score it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pearl.evaluate import metrics as answers
from pearl.evaluate.datasets.base import NO_DOCUMENT, Dataset, Example
from pearl.evaluate.datasets.multihop import MultiHop, folded, golds, read_objects, text_of
from pearl.lang.source import InputError


def read(path: str, folder: str = "") -> Iterator[Example]:
    """Every question of a file. There is no document.

    Args:
        path: an object whose ``data`` is a list, that list, or one object a
            line, with ``Question``, ``Answer`` (a list: any of them is right)
            and ``category``.
        folder: not used.

    Raises:
        InputError: the file cannot be used.
    """
    del folder
    rows = read_objects(path, "file as Compositional Celebrities is published", "data")
    # The published rows have no ids.
    for number, (where, row) in enumerate(rows, 1):
        yield _example(row, str(number), where)


def score(example: Example, answer: str) -> float:
    """1 where the answer contains a right one, whatever their case; else 0.

    Plain containment is the paper's rule; it also finds 48 in 1948.
    """
    said = folded(answer).casefold()
    return float(any(one.casefold() in said for one in golds(example) if one))


def measures(example: Example, answer: str) -> Mapping[str, float]:
    """Exact match and F1, which do not count what an answer holds by the way."""
    return answers.measures(example, answer)


def _example(row: dict[str, Any], name: str, where: str) -> Example:
    given = row.get("Answer", [])
    listed = given if isinstance(given, list) else [given]
    right = [folded(str(one)) for one in listed if _is_answer(one)]
    if len(right) < len(listed):
        raise InputError(
            f"{where}: Answer is to be a list of texts or numbers, none of them empty."
        )
    category = row.get("category")
    return Example(
        name,
        text_of(row, "Question", where),
        NO_DOCUMENT,
        gold=right[0] if right else "",
        labels={"category": (category,)} if isinstance(category, str) and category else {},
        data=MultiHop(aliases=tuple(right[1:])),
    )


def _is_answer(value: Any) -> bool:  # noqa: ANN401 - any JSON
    return isinstance(value, str | int | float) and bool(str(value).strip())


DATASET = Dataset(
    "celebrities",
    "Compositional Celebrities",
    (),
    read,
    score,
    "https://github.com/ofirpress/self-ask (datasets/compositional_celebrities.json)",
    ("normal", "cot", "react", "rebel"),
    measures,
    short=True,
)
