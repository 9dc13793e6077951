"""FEVER: claims that Wikipedia supports or refutes, asked without its pages.

Thorne et al., "FEVER: a large-scale dataset for Fact Extraction and
VERification", NAACL 2018; with two labels, as REBEL's authors ask it.

A row has ``id``, ``claim`` and ``label``. Claims with not enough information are
left out. There is no document: the rows say on which pages the evidence stands,
and not what these say.
"""

from __future__ import annotations

import re
from typing import Any

from pearl.evaluate.datasets.base import (
    NO_DOCUMENT,
    Dataset,
    Example,
    id_of,
    label,
    reader,
    text_of,
)
from pearl.lang.source import InputError

LABELS = ("SUPPORTS", "REFUTES")
UNKNOWN = "NOT ENOUGH INFO"
"""The label of claims that are left out."""

_SAID = re.compile(rf"\b(?:{'|'.join(LABELS)})\b", re.IGNORECASE)


def score(example: Example, answer: str) -> float:
    """1 where the answer names the right label and not the other one; else 0."""
    return float({found.upper() for found in _SAID.findall(answer)} == {example.gold})


def _example(row: dict[str, Any], where: str) -> Example | None:
    if row.get("label") == UNKNOWN:
        return None
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
    reader("file as FEVER publishes it", _example),
    score,
    "https://fever.ai (shared_task_dev.jsonl)",
    ("normal", "cot"),
    # Accuracy, under the name that the other data sets have for it.
    measures=lambda example, answer: {"exact_match": score(example, answer)},
    short=True,
)
