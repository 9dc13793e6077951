"""HotpotQA, and 2WikiMultihopQA, whose rows are HotpotQA's with evidence triples beside them.

Yang et al., "HotpotQA: A Dataset for Diverse, Explainable Multi-hop Question
Answering", EMNLP 2018: two of ten paragraphs of Wikipedia. Ho et al.,
"Constructing A Multi-hop QA Dataset for Comprehensive Evaluation of Reasoning
Steps", COLING 2020: two to four of ten. Answers and triples are compared as its
first script does, without the later list of aliases.

A row has ``_id``, ``question``, ``context``, ``supporting_facts`` and ``answer``;
2WikiMultihopQA's ``evidences`` are triples. A supporting fact that no paragraph
has stays gold: the official scripts count it too.
"""

from __future__ import annotations

from typing import Any

from pearl.evaluate.datasets.base import (
    Dataset,
    Example,
    gold_of,
    id_of,
    label,
    one_line,
    reader,
    text_of,
    texts_of,
)
from pearl.evaluate.datasets.multihop import (
    METHODS,
    Fact,
    MultiHop,
    Triple,
    compose,
    measures,
    score,
)
from pearl.lang.source import InputError


def _example(row: dict[str, Any], where: str) -> Example:
    name = id_of(row, "_id", where)
    document, paragraphs = compose(name, _context(row.get("context"), where))
    facts = _facts(row.get("supporting_facts", []), where)
    triples = _triples(row.get("evidences", []), where)
    return Example(
        name,
        text_of(row, "question", where),
        document,
        gold=gold_of(row, where),
        labels=label("type", row.get("type")),
        data=MultiHop(paragraphs, facts, triples=triples),
    )


def _context(value: Any, where: str) -> list[tuple[str, tuple[str, ...]]]:  # noqa: ANN401 - any JSON
    if not isinstance(value, list) or not value:
        raise InputError(f"{where} has no context: give pairs of a title and its sentences.")
    paragraphs = []
    for number, pair in enumerate(value, 1):
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise InputError(f"{where}: paragraph {number} is no pair of a title and sentences.")
        paragraphs.append((pair[0], texts_of(pair[1], f"paragraph {number}", where)))
    return paragraphs


def _facts(value: Any, where: str) -> tuple[Fact, ...]:  # noqa: ANN401 - any JSON
    if not isinstance(value, list) or not all(map(_is_fact, value)):
        raise InputError(f"{where}: supporting_facts is to be pairs of a title and a number.")
    return tuple(dict.fromkeys(Fact(one_line(title), number) for title, number in value))


def _is_fact(value: Any) -> bool:  # noqa: ANN401 - any JSON
    match value:
        case [str(), bool()]:
            return False
        case [str(), int()]:
            return True
    return False


def _triples(value: Any, where: str) -> tuple[Triple, ...]:  # noqa: ANN401 - any JSON
    if not isinstance(value, list):
        raise InputError(f"{where}: evidences is to be lists of subject, relation and object.")
    triples = []
    for number, parts in enumerate(value, 1):
        texts = texts_of(parts, f"evidence {number}", where)
        if len(texts) != 3:
            raise InputError(f"{where}: evidence {number} is no subject, relation and object.")
        triples.append((texts[0], texts[1], texts[2]))
    return tuple(triples)


_read = reader("file as HotpotQA publishes it", _example)
HOTPOTQA = Dataset(
    "hotpotqa",
    "HotpotQA",
    _read,
    score,
    "https://hotpotqa.github.io (hotpot_dev_distractor_v1.json)",
    METHODS,
    measures=measures,
    short=True,
)
TWO_WIKI = Dataset(
    "2wiki",
    "2WikiMultihopQA",
    _read,
    score,
    "https://github.com/Alab-NII/2wikimultihop (dev.json)",
    METHODS,
    measures=measures,
    short=True,
)
