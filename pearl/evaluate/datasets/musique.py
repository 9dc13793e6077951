"""MuSiQue-Ans: questions of two to four hops over twenty paragraphs.

Trivedi et al., "MuSiQue: Multihop Questions via Single-hop Question
Composition", TACL 2022. It says which paragraphs support an answer, by their
numbers, and not which sentences.

A row has ``id``, ``question``, ``paragraphs``, ``answer`` and ``answer_aliases``.
MuSiQue-Full's questions that cannot be answered are left out, as they ask for
something else than an answer.
"""

from __future__ import annotations

from typing import Any

from pearl.evaluate.datasets.base import (
    Dataset,
    Example,
    gold_of,
    id_of,
    one_line,
    reader,
    text_of,
    texts_of,
)
from pearl.evaluate.datasets.multihop import METHODS, Fact, MultiHop, compose, measures, score
from pearl.lang.source import InputError
from pearl.retrieval.terms import sentences


def _example(row: dict[str, Any], where: str) -> Example | None:
    if row.get("answerable") is False:
        return None
    name = id_of(row, "id", where)
    value = row.get("paragraphs")
    if not isinstance(value, list) or not value:
        raise InputError(f"{where} has no paragraphs: give MuSiQue's own rows.")
    texts = [_paragraph(paragraph, number, where) for number, paragraph in enumerate(value, 1)]
    document, paragraphs = compose(
        name,
        ((title, [text[at.start : at.end] for at in sentences(text)]) for title, text, _ in texts),
    )
    facts = tuple(
        Fact(paragraph.title, paragraph.number)
        for paragraph, (_, _, supports) in zip(paragraphs, texts, strict=True)
        if supports
    )
    aliases = texts_of(row.get("answer_aliases", []), "answer_aliases", where)
    hops = row.get("question_decomposition")
    return Example(
        name,
        text_of(row, "question", where),
        document,
        gold=gold_of(row, where),
        labels={"hops": (str(len(hops)),)} if isinstance(hops, list) and hops else {},
        data=MultiHop(paragraphs, facts, "paragraph", aliases=aliases),
    )


def _paragraph(value: Any, number: int, where: str) -> tuple[str, str, bool]:  # noqa: ANN401 - any JSON
    """Its title, its text, and whether it supports the answer."""
    match {"is_supporting": False, **value} if isinstance(value, dict) else value:
        case {"title": str(title), "paragraph_text": str(text), "is_supporting": bool(supports)}:
            return one_line(title), one_line(text), supports
    raise InputError(f"{where}: paragraph {number} has no title and paragraph_text.")


DATASET = Dataset(
    "musique",
    "MuSiQue",
    reader("file as MuSiQue publishes it", _example),
    score,
    "https://github.com/stonybrooknlp/musique (musique_ans_v1.0_dev.jsonl)",
    METHODS,
    measures=measures,
    short=True,
)
