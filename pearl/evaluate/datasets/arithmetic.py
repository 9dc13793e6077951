"""Word problems: GSM8K and MultiArith. The problem itself is what is read for it.

Cobbe et al., "Training Verifiers to Solve Math Word Problems", 2021: JSON lines
with ``question`` and ``answer``, which ends with ``####`` and the number. Roy and
Roth, "Solving General Arithmetic Word Problems", EMNLP 2015: JSON lines, or one
array, with ``sQuestion`` and ``lSolutions``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from pearl.evaluate.datasets.base import Dataset, Example, one_line
from pearl.lang.source import InputError, Source, read_source
from pearl.lang.values import find_last, last_number


def _gsm8k(row: Any) -> tuple[Any, str]:  # noqa: ANN401 - any JSON
    _, sign, gold = row["answer"].rpartition("####")
    return row["question"] if sign else None, gold


def _multiarith(row: Any) -> tuple[Any, str]:  # noqa: ANN401 - any JSON
    gold = row["lSolutions"][0]
    return None if isinstance(gold, bool | None) else row["sQuestion"], str(gold)


def _reader(
    parts: Callable[[Any], tuple[Any, str]], missing: str
) -> Callable[[str, str], Iterator[Example]]:
    """How a file of problems is read.

    Args:
        parts: the question of a row, which is no text where it has none, and the answer.
        missing: what a row lacks that has no question or no answer.
    """

    def read(path: str, folder: str = "") -> Iterator[Example]:
        for number, row in enumerate(_rows(path), 1):
            try:
                question, gold = parts(row)
            except (KeyError, TypeError, AttributeError, IndexError):
                question, gold = None, ""
            if not isinstance(question, str):
                raise InputError(f"{path}, problem {number} has {missing}.")
            if last_number(gold) is None:
                raise InputError(
                    f"{path}, problem {number}: its answer {gold.strip()!r} is no number."
                )
            text = one_line(question)
            document = Source(f"problem {number}", text)
            yield Example(str(number), text, document, gold=gold.strip())

    return read


def score(example: Example, answer: str) -> float:
    """1 where the answer's last number is the right one, however it is written; else 0.

    The right ones are in digits, and the question says of what: *7 dozen* is
    right where 7 is, as where 84 is, and *2 million dollars* likewise.
    """
    last = find_last(answer)
    return float(last is not None and last_number(example.gold) in (last.scaled, last.written))


def _rows(path: str) -> list[Any]:
    text = read_source(path, "file of problems").text.strip()
    try:
        if text.startswith("["):
            rows = json.loads(text)
        else:
            rows = [json.loads(line) for line in text.split("\n") if line.strip()]
    except (ValueError, RecursionError):
        raise InputError(f"{path} is not JSON: give one problem a line.") from None
    if not rows:
        raise InputError(f"{path} has no problem: give one a line.")
    return list(rows)


_METHODS = ("decomp", "zero-shot", "cot", "cot-rolled-out", "least-to-most", "no-context")
GSM8K = Dataset(
    "gsm8k",
    "GSM8K",
    _reader(_gsm8k, "no question, or no answer after ####"),
    score,
    "https://github.com/openai/grade-school-math",
    _METHODS,
    libraries=("arithmetic",),
    demonstrations="arithmetic",
)
MULTIARITH = Dataset(
    "multiarith",
    "MultiArith",
    _reader(_multiarith, "no sQuestion, or no lSolutions"),
    score,
    "https://github.com/kojima-takeshi188/zero_shot_cot",
    _METHODS,
    libraries=("arithmetic",),
    demonstrations="arithmetic",
)
