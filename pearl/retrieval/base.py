"""The one shape of retrievers, and the order of what they find."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

_EQUAL = 1e-5
"""The share by which two scores may differ and be one: sums of the same terms in another
order differ by less, and different paragraphs nearly always by more."""

_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of text that bears on a query.

    Args:
        id: names it in its document or corpus.
        title: what it stands under; empty where nothing is known.
        text: to the letter.
        score: how well it bears on the query, above 0; comparable within one
            answer only.
    """

    id: str
    title: str
    text: str
    score: float


class Retriever(Protocol):
    """Finds passages. Many threads may search one at once."""

    def search(self, query: str, k: int) -> list[Passage]:
        """The passages that bear most on a query.

        Args:
            query: plain words; nothing in it is syntax.
            k: how many at most.

        Returns:
            Best first, equal ones by their ids; none where the query has no
            word that counts, or k is below 1.
        """
        ...


def told_passages(passages: Iterable[Passage]) -> list[str]:
    """Passages as texts for a model: each to the letter, its title and a colon before it.

    Args:
        passages: in the order in which they are told.
    """
    return [f"{one.title}: {one.text}" if one.title else one.text for one in passages]


def near(one: float, other: float) -> bool:
    """Whether two scores are one but for the last digits of their sums."""
    return abs(one - other) <= _EQUAL * max(abs(one), abs(other))


def in_order(found: Iterable[Passage]) -> list[Passage]:
    """Passages best first; those of equal score share it and stand by their ids.

    Numbers in ids count as numbers: 9 stands before 10.
    """
    groups: list[list[Passage]] = []
    last = 0.0
    for one in sorted(found, key=lambda passage: -passage.score):
        if groups and near(last, one.score):
            groups[-1].append(one)
        else:
            groups.append([one])
        last = one.score
    return [
        replace(one, score=round(group[0].score, 4))
        for group in groups
        for one in sorted(group, key=_by_id)
    ]


def _by_id(one: Passage) -> tuple[list[str | int], str]:
    parts = _DIGITS.split(one.id)
    return [int(part) if at % 2 else part for at, part in enumerate(parts)], one.id
