"""HotpotQA's row, which 2WikiMultihopQA has too: titled paragraphs, supporting sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pearl.evaluate.datasets.base import Example
from pearl.evaluate.datasets.multihop import (
    Fact,
    MultiHop,
    Triple,
    compose,
    folded,
    gold_of,
    id_of,
    once,
    read_objects,
    text_of,
    texts_of,
)
from pearl.lang.source import InputError


def read(path: str, folder: str = "") -> Iterator[Example]:
    """Every question of a file, its paragraphs as one document.

    A supporting fact that no paragraph has stays gold: the official scripts
    count it too.

    Args:
        path: a JSON array, or one object a line, with ``_id``, ``question``,
            ``context``, ``supporting_facts`` and ``answer``; 2WikiMultihopQA's
            ``evidences`` are triples.
        folder: not used.

    Raises:
        InputError: the file cannot be used.
    """
    del folder
    yield from once(
        (where, _example(row, where))
        for where, row in read_objects(path, "file as HotpotQA publishes it")
    )


def _example(row: dict[str, Any], where: str) -> Example:
    name = id_of(row, "_id", where)
    document, paragraphs = compose(name, _context(row.get("context"), where))
    kind = row.get("type")
    return Example(
        name,
        text_of(row, "question", where),
        document,
        gold=gold_of(row, where),
        labels={"type": (kind,)} if isinstance(kind, str) and kind else {},
        data=MultiHop(
            paragraphs,
            _facts(row.get("supporting_facts", []), where),
            triples=_triples(row.get("evidences", []), where),
        ),
    )


def _context(value: Any, where: str) -> list[tuple[str, tuple[str, ...]]]:  # noqa: ANN401 - any JSON
    if not isinstance(value, list) or not value:
        raise InputError(f"{where} has no context: give pairs of a title and its sentences.")
    found = []
    for number, pair in enumerate(value, 1):
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise InputError(f"{where}: paragraph {number} is no pair of a title and sentences.")
        found.append((pair[0], texts_of(pair[1], f"paragraph {number}", where)))
    return found


def _facts(value: Any, where: str) -> tuple[Fact, ...]:  # noqa: ANN401 - any JSON
    if not isinstance(value, list) or not all(map(_is_fact, value)):
        raise InputError(f"{where}: supporting_facts is to be pairs of a title and a number.")
    return tuple(dict.fromkeys(Fact(folded(title), number) for title, number in value))


def _is_fact(value: Any) -> bool:  # noqa: ANN401 - any JSON
    return (
        isinstance(value, list)
        and len(value) == 2
        and isinstance(value[0], str)
        and isinstance(value[1], int)
        and not isinstance(value[1], bool)
    )


def _triples(value: Any, where: str) -> tuple[Triple, ...]:  # noqa: ANN401 - any JSON
    if not isinstance(value, list):
        raise InputError(f"{where}: evidences is to be lists of subject, relation and object.")
    found = []
    for number, one in enumerate(value, 1):
        told = texts_of(one, f"evidence {number}", where)
        if len(told) != 3:
            raise InputError(f"{where}: evidence {number} is no subject, relation and object.")
        found.append((told[0], told[1], told[2]))
    return tuple(found)
