"""CommaQA-E as reading comprehension: a passage, and neither agents nor decompositions.

Khot et al., "Decomposed Prompting", ICLR 2023, section 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pearl.evaluate.datasets.base import Dataset, Example
from pearl.evaluate.datasets.commaqa import measures, score
from pearl.evaluate.datasets.decomp import read_groups
from pearl.lang.source import InputError, Source
from pearl.lang.values import canonical_json


def read(path: str, folder: str = "") -> Iterator[Example]:
    """Every question of a file, those of one passage together.

    Args:
        path: a JSON object whose values have ``passage`` and ``qa_pairs``,
            each with ``question``, ``query_id`` and ``answer``, whose ``spans``
            are the right answer in no order.
        folder: not used.

    Raises:
        InputError: the file cannot be used.
    """
    del folder
    seen: set[str] = set()
    for name, group in read_groups(path):
        passage = group.get("passage")
        if not isinstance(passage, str) or not passage.strip():
            raise InputError(f"{path}: {name} has no passage: give a file as DecomP publishes it.")
        document = Source(name, passage)
        for number, pair in enumerate(group["qa_pairs"], 1):
            example = _example(pair, document, f"{path}: {name}, question {number}")
            if example.id in seen:
                raise InputError(f"{path}: {name} has a question with the id {example.id} again.")
            seen.add(example.id)
            yield example


def _example(pair: Any, document: Source, where: str) -> Example:  # noqa: ANN401 - any JSON
    try:
        question, spans = str(pair["question"]), pair["answer"]["spans"]
        name = str(pair["query_id"])
    except (KeyError, TypeError):
        raise InputError(f"{where} has no question, spans and query_id.") from None
    if not isinstance(spans, list) or not all(isinstance(one, str) for one in spans):
        raise InputError(f"{where} has spans that are no list of texts.")
    return Example(name, question, document, gold=canonical_json(spans))


DATASET = Dataset(
    "commaqa-e",
    "CommaQA-E, reading comprehension",
    (),
    read,
    score,
    "https://github.com/allenai/DecomP",
    ("decomp",),
    measures,
    libraries=("commaqa_e_fine",),
    demonstrations="commaqa_e",
)
