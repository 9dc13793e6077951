"""The paragraphs of one document, and which of them bear on a query."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from pearl.retrieval.base import Passage, in_order
from pearl.retrieval.bm25 import Weights, weigh
from pearl.retrieval.words import field_terms, query_terms
from pearl.source import Source, Span

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
