"""The tasks of DecomP that are asked without a document: letters, and reversal.

Khot et al., "Decomposed Prompting", ICLR 2023, sections 4.1 and 4.2.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pearl.evaluate.datasets.base import Dataset, Example
from pearl.lang.source import InputError, Source, read_source

_NONE = Source("no document", "-")
"""Nothing is read to answer these questions."""


def read(path: str, folder: str = "") -> Iterator[Example]:
    """Every question of a file in DecomP's form.

    Args:
        path: a JSON object whose values have ``qa_pairs``, each with
            ``question`` and ``answer``, whose ``spans`` are the right answer.
        folder: not used.

    Raises:
        InputError: the file cannot be used.
    """
    del folder
    pairs = [pair for _, group in read_groups(path) for pair in group["qa_pairs"]]
    seen: set[str] = set()
    for number, pair in enumerate(pairs, 1):
        example = _example(pair, f"{path}, question {number}")
        if example.id in seen:
            raise InputError(f"{path}, question {number} has the id {example.id} again.")
        seen.add(example.id)
        yield example


def read_groups(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The groups of a file in DecomP's form, each with its name.

    Raises:
        InputError: the file is no JSON object whose values have ``qa_pairs``.
    """
    try:
        data = json.loads(read_source(path, "file of questions").text)
    except (ValueError, RecursionError):
        raise InputError(f"{path} is not JSON: give a file as DecomP publishes it.") from None
    told = data.items() if isinstance(data, dict) else ()
    groups = [(str(name), one) for name, one in told if _has_pairs(one)]
    if not groups:
        raise InputError(f"{path} has no qa_pairs: give a file as DecomP publishes it.")
    yield from groups


def score(example: Example, answer: str) -> float:
    """1 where the answer is the right one to the letter, but for spaces around it; else 0."""
    return float(answer.strip() == example.gold.strip())


def _has_pairs(group: Any) -> bool:  # noqa: ANN401 - any JSON
    pairs = group.get("qa_pairs") if isinstance(group, dict) else None
    return isinstance(pairs, list) and bool(pairs)


def _example(pair: Any, where: str) -> Example:  # noqa: ANN401 - any JSON
    try:
        question, spans = pair["question"], pair["answer"]["spans"]
        return Example(str(pair["query_id"]), str(question), _NONE, gold=", ".join(spans))
    except (KeyError, TypeError):
        raise InputError(f"{where} has no question, spans and query_id.") from None


_WHERE = "https://github.com/allenai/DecomP"
LETTERS = Dataset(
    "letters",
    "Letter concatenation",
    (),
    read,
    score,
    _WHERE,
    ("decomp",),
    libraries=("letters",),
    demonstrations="letters",
)
REVERSAL = Dataset(
    "reversal",
    "List reversal",
    (),
    read,
    score,
    _WHERE,
    ("decomp",),
    libraries=("reversal",),
    demonstrations="reversal",
)
