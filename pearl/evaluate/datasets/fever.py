"""FEVER: claims that Wikipedia supports or refutes, asked without its pages.

Thorne et al., "FEVER: a large-scale dataset for Fact Extraction and
VERification", NAACL 2018; with two labels, as REBEL's authors ask it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pearl.evaluate.datasets.base import (
    NO_DOCUMENT,
    Dataset,
    Example,
    id_of,
    label,
    read_objects,
    text_of,
    with_unique_ids,
)
from pearl.lang.source import InputError

LABELS = ("SUPPORTS", "REFUTES")
UNKNOWN = "NOT ENOUGH INFO"
"""The label of claims that are left out."""

_SAID = re.compile(rf"\b(?:{'|'.join(LABELS)})\b", re.IGNORECASE)


def read(path: str, folder: str = "") -> Iterator[Example]:
    """Every claim of a file that is supported or refuted, as a question.

    Claims with not enough information are left out. There is no document: the
    rows say on which pages the evidence stands, and not what these say.

    Args:
        path: JSON lines, or an array, with ``id``, ``claim`` and ``label``.
        folder: not used.

    Raises:
        InputError: the file cannot be used.
    """
    yield from with_unique_ids(
        (where, _example(row, where))
        for where, row in read_objects(path, "file as FEVER publishes it")
        if row.get("label") != UNKNOWN
    )


def score(example: Example, answer: str) -> float:
    """1 where the answer names the right label and not the other one; else 0."""
    return float({found.upper() for found in _SAID.findall(answer)} == {example.gold})


def _example(row: dict[str, Any], where: str) -> Example:
    gold = row.get("label", "")
    if not isinstance(gold, str) or (gold and gold not in LABELS):
        raise InputError(f"{where}: label is to be one of {', '.join((*LABELS, UNKNOWN))}.")
    claim = text_of(row, "claim", where)
    question = (
        "Is this claim true? Answer SUPPORTS where what is known supports it, and REFUTES where "
        f"it refutes it. Claim: {claim}"
    )
    name = id_of(row, "id", where)
    return Example(name, question, NO_DOCUMENT, gold=gold, labels=label("label", gold))


DATASET = Dataset(
    "fever",
    "FEVER",
    read,
    score,
    "https://fever.ai (shared_task_dev.jsonl)",
    ("normal", "cot"),
    # Accuracy, under the name that the other data sets have for it.
    measures=lambda example, answer: {"exact_match": score(example, answer)},
    short=True,
)
