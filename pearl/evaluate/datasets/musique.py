"""MuSiQue-Ans: questions of two to four hops over twenty paragraphs.

Trivedi et al., "MuSiQue: Multihop Questions via Single-hop Question
Composition", TACL 2022. It says which paragraphs support an answer, by their
numbers, and not which sentences.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pearl.evaluate.datasets.base import Dataset, Example
from pearl.evaluate.datasets.multihop import (
    Fact,
    MultiHop,
    compose,
    folded,
    gold_of,
    id_of,
    once,
    read_objects,
    text_of,
    texts_of,
)
from pearl.evaluate.metrics import measures, score
from pearl.lang.source import InputError
from pearl.retrieval.terms import sentences


def read(path: str, folder: str = "") -> Iterator[Example]:
    """Every answerable question of a file, its paragraphs as one document.

    MuSiQue-Full's questions that cannot be answered are left out, as they ask
    for something else than an answer.

    Args:
        path: JSON lines, or an array, with ``id``, ``question``,
            ``paragraphs``, ``answer`` and ``answer_aliases``.
        folder: not used.

    Raises:
        InputError: the file cannot be used.
    """
    del folder
    yield from once(
        (where, _example(row, where))
        for where, row in read_objects(path, "file as MuSiQue publishes it")
        if row.get("answerable") is not False
    )


def _example(row: dict[str, Any], where: str) -> Example:
    name = id_of(row, "id", where)
    given = row.get("paragraphs")
    if not isinstance(given, list) or not given:
        raise InputError(f"{where} has no paragraphs: give MuSiQue's own rows.")
    told = [_paragraph(one, number, where) for number, one in enumerate(given, 1)]
    document, paragraphs = compose(
        name, ((title, [text[one.start : one.end] for one in sentences(text)])
               for title, text, _ in told)
    )  # fmt: skip
    hops = row.get("question_decomposition")
    return Example(
        name,
        text_of(row, "question", where),
        document,
        gold=gold_of(row, where),
        labels={"hops": (str(len(hops)),)} if isinstance(hops, list) and hops else {},
        data=MultiHop(
            paragraphs,
            tuple(
                Fact(one.title, one.number)
                for one, (_, _, supports) in zip(paragraphs, told, strict=True)
                if supports
            ),
            "paragraph",
            aliases=texts_of(row.get("answer_aliases", []), "answer_aliases", where),
        ),
    )


def _paragraph(given: Any, number: int, where: str) -> tuple[str, str, bool]:  # noqa: ANN401 - any JSON
    """Its title, its text, and whether it supports the answer."""
    if isinstance(given, dict):
        title, text = given.get("title"), given.get("paragraph_text")
        supports = given.get("is_supporting", False)
        if isinstance(title, str) and isinstance(text, str) and isinstance(supports, bool):
            return folded(title), folded(text), supports
    raise InputError(f"{where}: paragraph {number} has no title and paragraph_text.")


DATASET = Dataset(
    "musique",
    "MuSiQue",
    (),
    read,
    score,
    "https://github.com/stonybrooknlp/musique (musique_ans_v1.0_dev.jsonl)",
    ("normal", "cot", "sp-cot", "react", "fsm1", "fsm2", "rebel"),
    measures,
    short=True,
)
