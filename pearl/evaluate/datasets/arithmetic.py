"""Word problems: GSM8K and MultiArith.

Cobbe et al., "Training Verifiers to Solve Math Word Problems", 2021; Roy and
Roth, "Solving General Arithmetic Word Problems", EMNLP 2015.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pearl.evaluate.datasets.base import Dataset, Example, one_line
from pearl.lang.source import InputError, Source, read_source
from pearl.lang.values import find_last, last_number


def read_gsm8k(path: str, folder: str = "") -> Iterator[Example]:
    """Every problem of a file; the problem itself is what is read for it.

    Args:
        path: JSON lines with ``question`` and ``answer``, which ends with
            ``####`` and the number.
        folder: not used.

    Raises:
        InputError: the file cannot be used.
    """
    for number, row in enumerate(_rows(path), 1):
        try:
            question, (_, sign, gold) = row["question"], row["answer"].rpartition("####")
        except (KeyError, TypeError, AttributeError):
            question, sign, gold = None, "", ""
        if not isinstance(question, str) or not sign:
            raise InputError(f"{path}, problem {number} has no question, or no answer after ####.")
        yield _example(path, number, question, gold)


def read_multiarith(path: str, folder: str = "") -> Iterator[Example]:
    """Every problem of a file; the problem itself is what is read for it.

    Args:
        path: JSON lines, or one JSON array, with ``sQuestion`` and ``lSolutions``.
        folder: not used.

    Raises:
        InputError: the file cannot be used.
    """
    for number, row in enumerate(_rows(path), 1):
        try:
            question, gold = row["sQuestion"], row["lSolutions"][0]
        except (KeyError, TypeError, IndexError):
            question, gold = None, None
        if not isinstance(question, str) or isinstance(gold, bool | None):
            raise InputError(f"{path}, problem {number} has no sQuestion, or no lSolutions.")
        yield _example(path, number, question, str(gold))


def score(example: Example, answer: str) -> float:
    """1 where the answer's last number is the right one, however it is written; else 0.

    The right ones are in digits, and the question says of what: *7 dozen* is
    right where 7 is, as where 84 is, and *2 million dollars* likewise.
    """
    last = find_last(answer)
    return float(last is not None and last_number(example.gold) in (last.scaled, last.written))


def _example(path: str, number: int, question: str, gold: str) -> Example:
    if last_number(gold) is None:
        raise InputError(f"{path}, problem {number}: its answer {gold.strip()!r} is no number.")
    text = one_line(question)
    return Example(str(number), text, Source(f"problem {number}", text), gold=gold.strip())


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
    read_gsm8k,
    score,
    "https://github.com/openai/grade-school-math",
    _METHODS,
    libraries=("arithmetic",),
    demonstrations="arithmetic",
)
MULTIARITH = Dataset(
    "multiarith",
    "MultiArith",
    read_multiarith,
    score,
    "https://github.com/kojima-takeshi188/zero_shot_cot",
    _METHODS,
    libraries=("arithmetic",),
    demonstrations="arithmetic",
)
