"""The tasks that DecomP publishes: letters and reversal without a document, and CommaQA-E.

Khot et al., "Decomposed Prompting", ICLR 2023, sections 4.1 to 4.3. CommaQA-E is
reading comprehension there: a passage, and neither agents nor decompositions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pearl.evaluate.datasets import commaqa
from pearl.evaluate.datasets.base import NO_DOCUMENT, Dataset, Example
from pearl.lang.source import InputError, Source, read_source
from pearl.lang.values import canonical_json

_PUBLISHED = "give a file as DecomP publishes it."
_WHERE = "https://github.com/allenai/DecomP"


def read(path: str, folder: str = "") -> Iterator[Example]:
    """Every question of a file in DecomP's form.

    Args:
        path: a JSON object whose values have ``qa_pairs``, each with
            ``question``, ``query_id`` and ``answer``, whose ``spans`` are the
            right answer.
        folder: not used.

    Raises:
        InputError: the file cannot be used.
    """
    pairs = [pair for _, group in _read_groups(path) for pair in group["qa_pairs"]]
    seen: set[str] = set()
    for number, pair in enumerate(pairs, 1):
        where = f"{path}, question {number}"
        name, question, spans = _parts(pair, where)
        try:
            gold = ", ".join(spans)
        except TypeError:
            raise InputError(f"{where} has no question, spans and query_id.") from None
        if name in seen:
            raise InputError(f"{where} has the id {name} again.")
        seen.add(name)
        yield Example(name, question, NO_DOCUMENT, gold=gold)


def read_passages(path: str, folder: str = "") -> Iterator[Example]:
    """Every question of a file, those of one passage together.

    Args:
        path: as `read` takes it; the values have a ``passage`` too, and the
            ``spans`` are in no order.
        folder: not used.

    Raises:
        InputError: the file cannot be used.
    """
    seen: set[str] = set()
    for group_name, group in _read_groups(path):
        passage = group.get("passage")
        if not isinstance(passage, str) or not passage.strip():
            raise InputError(f"{path}: {group_name} has no passage: {_PUBLISHED}")
        document = Source(group_name, passage)
        for number, pair in enumerate(group["qa_pairs"], 1):
            where = f"{path}: {group_name}, question {number}"
            name, question, spans = _parts(pair, where)
            if not isinstance(spans, list) or not all(isinstance(span, str) for span in spans):
                raise InputError(f"{where} has spans that are no list of texts.")
            if name in seen:
                raise InputError(f"{path}: {group_name} has a question with the id {name} again.")
            seen.add(name)
            yield Example(name, question, document, gold=canonical_json(spans))


def score(example: Example, answer: str) -> float:
    """1 where the answer is the right one to the letter, but for spaces around it; else 0."""
    return float(answer.strip() == example.gold.strip())


def _read_groups(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The groups of a file, each with its name and at least one question."""
    try:
        data = json.loads(read_source(path, "file of questions").text)
    except (ValueError, RecursionError):
        raise InputError(f"{path} is not JSON: {_PUBLISHED}") from None
    groups = []
    for name, group in data.items() if isinstance(data, dict) else ():
        pairs = group.get("qa_pairs") if isinstance(group, dict) else None
        if isinstance(pairs, list) and pairs:
            groups.append((str(name), group))
    if not groups:
        raise InputError(f"{path} has no qa_pairs: {_PUBLISHED}")
    yield from groups


def _parts(pair: Any, where: str) -> tuple[str, str, Any]:  # noqa: ANN401 - any JSON
    """A question's id, its text and its spans."""
    try:
        return str(pair["query_id"]), str(pair["question"]), pair["answer"]["spans"]
    except (KeyError, TypeError):
        raise InputError(f"{where} has no question, spans and query_id.") from None


LETTERS = Dataset(
    "letters",
    "Letter concatenation",
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
    read,
    score,
    _WHERE,
    ("decomp",),
    libraries=("reversal",),
    demonstrations="reversal",
)
COMMAQA_E = Dataset(
    "commaqa-e",
    "CommaQA-E, reading comprehension",
    read_passages,
    commaqa.score,
    _WHERE,
    ("decomp",),
    measures=commaqa.measures,
    libraries=("commaqa_e_fine",),
    demonstrations="commaqa_e",
)
