"""Compositional Celebrities: two facts about a well-known person, one after the other.

Press et al., "Measuring and Narrowing the Compositionality Gap in Language
Models", Findings of EMNLP 2023; scored as REBEL's authors score it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pearl.evaluate.datasets.base import (
    NO_DOCUMENT,
    Dataset,
    Example,
    label,
    one_line,
    read_objects,
    text_of,
)
from pearl.evaluate.datasets.multihop import MultiHop, golds, measures
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
    rows = read_objects(path, "file as Compositional Celebrities is published", "data")
    # The published rows have no ids.
    for number, (where, row) in enumerate(rows, 1):
        yield _example(row, str(number), where)


def score(example: Example, answer: str) -> float:
    """1 where the answer contains a right one, whatever their case; else 0.

    Plain containment is the paper's rule; it also finds 48 in 1948. Exact match
    and F1, beside it, do not count what an answer holds by the way.
    """
    said = one_line(answer).casefold()
    return float(any(gold.casefold() in said for gold in golds(example) if gold))


def _example(row: dict[str, Any], name: str, where: str) -> Example:
    value = row.get("Answer", [])
    answers = value if isinstance(value, list) else [value]
    if not all(isinstance(gold, str | int | float) and str(gold).strip() for gold in answers):
        raise InputError(
            f"{where}: Answer is to be a list of texts or numbers, none of them empty."
        )
    gold, *aliases = [one_line(str(answer)) for answer in answers] or [""]
    return Example(
        name,
        text_of(row, "Question", where),
        NO_DOCUMENT,
        gold=gold,
        labels=label("category", row.get("category")),
        data=MultiHop(aliases=tuple(aliases)),
    )


DATASET = Dataset(
    "celebrities",
    "Compositional Celebrities",
    read,
    score,
    "https://github.com/ofirpress/self-ask (datasets/compositional_celebrities.json)",
    ("normal", "cot", "react", "rebel"),
    measures=measures,
    short=True,
)
