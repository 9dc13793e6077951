"""Retrievers, the order of what they find, and the one that searches a single document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

from pearl.lang.source import Source, Span
from pearl.retrieval.bm25 import Weights, weigh
from pearl.retrieval.terms import field_terms, query_terms

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


def passage_texts(passages: Iterable[Passage]) -> list[str]:
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


_BETWEEN = re.compile(r"\n[^\S\n]*\n\s*")
_HEADING = re.compile(r"(#{1,6})[^\S\n]+(\S[^\n]*?)[^\S\n]*#*[^\S\n]*(?:\n\s*|\Z)")
_LONGEST = 2000
"""Characters of a paragraph; a longer one is cut."""

_CUTS = tuple(
    re.compile(pattern)
    for pattern in (r"\n\s*", r"[.!?…][\"'”’»)\]]*\s+|[。！？][”’」』）]*", r"\s+")
)
"""Where a long paragraph is cut, the best places first: lines, sentences, words."""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of a document.

    Args:
        id: its number, counted from 1.
        title: the headings it stands under, outermost first.
        span: where it stands, without the white space around it.
    """

    id: str
    title: str
    span: Span


@dataclass(frozen=True)
class DocumentRetriever:
    """The paragraphs of one document, found as those of a corpus are (BM25).

    Args:
        document: what to search.
    """

    document: Source

    @property
    def paragraphs(self) -> tuple[Paragraph, ...]:
        """All of them, in order."""
        return _index(self.document.text)[0]

    def search(self, query: str, k: int) -> list[Passage]:
        """The paragraphs that bear most on a query, as `Retriever.search`."""
        wanted = query_terms(query)
        if not wanted or k < 1:
            return []
        paragraphs, weights = _index(self.document.text)
        scores = weights.scores(dict.fromkeys(wanted, 1.0))
        found = (
            Passage(one.id, one.title, self.document.at(one.span), float(score))
            for one, score in zip(paragraphs, scores, strict=True)
            if score > 0
        )
        return in_order(found)[:k]


# Many steps ask for passages of one document.
@lru_cache(maxsize=8)
def _index(text: str) -> tuple[tuple[Paragraph, ...], Weights]:
    found = tuple(_paragraphs(text))
    read = [field_terms(one.title, text[one.span.start : one.span.end]) for one in found]
    return found, weigh(read, k1=1.2, b=0.75)


def _paragraphs(text: str) -> Iterator[Paragraph]:
    """The paragraphs; Markdown's headings are their titles, and none themselves."""
    titles: list[tuple[int, str]] = []
    number = 0
    for block in _blocks(text):
        start, end = block
        while heading := _HEADING.match(text, start, end):
            level = len(heading[1])
            titles = [one for one in titles if one[0] < level] + [(level, heading[2])]
            start = heading.end()
        for span in _cut(text, start, end):
            number += 1
            yield Paragraph(str(number), " / ".join(title for _, title in titles), span)


def _blocks(text: str) -> Iterator[Span]:
    start = 0
    for between in (*_BETWEEN.finditer(text), None):
        end = between.start() if between else len(text)
        yield Span(start, end)
        start = between.end() if between else end


def _cut(text: str, start: int, end: int) -> Iterator[Span]:
    """A paragraph, in pieces where it is long."""
    while end - start > _LONGEST:
        at = _place(text, start, start + _LONGEST)
        yield from _stripped(text, start, at)
        start = at
    yield from _stripped(text, start, end)


def _place(text: str, start: int, end: int) -> int:
    """Where to cut, so that the first piece is as long as may be."""
    for pattern in _CUTS:
        # A piece of less than half the length says too little by itself.
        places = [one.end() for one in pattern.finditer(text, start + _LONGEST // 2, end)]
        if places:
            return places[-1]
    return end


def _stripped(text: str, start: int, end: int) -> Iterator[Span]:
    body = text[start:end]
    if body.strip():
        start += len(body) - len(body.lstrip())
        yield Span(start, start + len(body.strip()))
