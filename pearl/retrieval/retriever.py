"""Retrieval of passages and paragraphs.

A document is searched by its paragraphs. Where it does not fit a prompt, the passages or
paragraphs that are relevant to a step are chosen, in the document's order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Protocol

from pearl.lang.source import START, Source, Span
from pearl.retrieval.terms import (
    UNSPACED,
    Weights,
    blocks,
    field_terms,
    pairs_of,
    query_terms,
    stripped,
    weigh,
    with_neighbours,
    words,
)
from pearl.retrieval.text_splitter import (
    BETWEEN,
    SENTENCE,
    SPACE,
    break_points,
    names_above,
    spans,
)

_EQUAL = 1e-5
"""The share by which two scores may differ and count as equal: sums of the same terms in another
order differ by less, and different paragraphs nearly always by more."""

_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of text that bears on a query.

    Args:
        id: names it in its document or corpus.
        title: the title it stands under; empty where none is known.
        text: its text, unchanged.
        score: its relevance to the query, above 0; comparable only within the
            result of one search.
    """

    id: str
    title: str
    text: str
    score: float


class Retriever(Protocol):
    """Finds passages. Many threads may search with one retriever at once."""

    def search(self, query: str, k: int) -> list[Passage]:
        """The passages that bear most on a query.

        Args:
            query: plain words; nothing in it is syntax.
            k: the most passages to find.

        Returns:
            The passages, best first, equal ones by their ids; none where the
            query has no word that counts, or k is below 1.
        """


def passage_texts(passages: Iterable[Passage]) -> list[str]:
    """Passages as texts for a model, in order, each after its title and a colon."""
    return [f"{item.title}: {item.text}" if item.title else item.text for item in passages]


def near(score: float, other: float) -> bool:
    """Whether two scores are equal but for rounding."""
    return abs(score - other) <= _EQUAL * max(abs(score), abs(other))


def in_order(passages: Iterable[Passage]) -> list[Passage]:
    """Passages best first; those of equal score share it and stand by their ids.

    Numbers in ids count as numbers: 9 stands before 10.
    """
    groups: list[list[Passage]] = []
    last = 0.0
    for passage in sorted(passages, key=lambda passage: -passage.score):
        if groups and near(last, passage.score):
            groups[-1].append(passage)
        else:
            groups.append([passage])
        last = passage.score
    return [
        replace(passage, score=round(group[0].score, 4))
        for group in groups
        for passage in sorted(group, key=_by_id)
    ]


def _by_id(passage: Passage) -> tuple[list[str | int], str]:
    parts = _DIGITS.split(passage.id)
    return [int(part) if at % 2 else part for at, part in enumerate(parts)], passage.id


_HEADING = re.compile(r"(#{1,6})[^\S\n]+(\S[^\n]*)(?:\n\s*|\Z)")
_LONGEST = 2000
"""The most characters of a paragraph; a longer one is cut."""

_CUTS = (re.compile(r"\n\s*"), SENTENCE, SPACE)
"""Where a long paragraph is cut, the best places first: lines, sentences, words."""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of a document.

    Args:
        id: its number, counted from 1.
        title: the headings it stands under, outermost first, with " / " between them.
        span: where it stands, without the white space around it.
    """

    id: str
    title: str
    span: Span


@dataclass(frozen=True)
class DocumentRetriever:
    """The paragraphs of one document, searched as a corpus is (BM25).

    Args:
        document: what to search.
    """

    document: Source

    @property
    def paragraphs(self) -> tuple[Paragraph, ...]:
        """The document's paragraphs, in order."""
        return _paragraphs(self.document.text)

    def shown(self, paragraph: Paragraph) -> str:
        """A paragraph of the document with its headings above it."""
        heading = f"# {paragraph.title}\n\n" if paragraph.title else ""
        return f"{heading}{self.document.at(paragraph.span)}\n\n"

    def search(self, query: str, k: int) -> list[Passage]:
        """The paragraphs that bear most on a query, as `Retriever.search`."""
        terms = query_terms(query)
        if not terms or k < 1:
            return []
        scores = _weights(self.document.text).scores(dict.fromkeys(terms, 1.0))
        passages = (
            Passage(paragraph.id, paragraph.title, self.document.at(paragraph.span), float(score))
            for paragraph, score in zip(self.paragraphs, scores, strict=True)
            if score > 0
        )
        return in_order(passages)[:k]


# Many steps ask for passages of one document.
@lru_cache(maxsize=8)
def _weights(text: str) -> Weights:
    terms = [field_terms(each.title, text[slice(*each.span)]) for each in _paragraphs(text)]
    return weigh(terms, k1=1.2, b=0.75)


@lru_cache(maxsize=8)
def _paragraphs(text: str) -> tuple[Paragraph, ...]:
    """The paragraphs; Markdown's headings are their titles, and no paragraphs themselves."""
    paragraphs: list[Paragraph] = []
    titles: list[tuple[int, str]] = []
    for start, end in blocks(text, BETWEEN):
        # Before later documents, `BETWEEN` has taken it with the white space.
        start += text.startswith(START, start)
        while heading := _HEADING.match(text, start, end):
            # The name of one of several documents is the outermost title of its paragraphs.
            level = 0 if text[start - 1 : start] == START else len(heading[1])
            titles = [entry for entry in titles if entry[0] < level]
            titles.append((level, heading[2].rstrip().rstrip("#").rstrip()))
            start = heading.end()
        title = " / ".join(title for _, title in titles)
        for span in _pieces(text, start, end):
            paragraphs.append(Paragraph(str(len(paragraphs) + 1), title, span))
    return tuple(paragraphs)


def _pieces(text: str, start: int, end: int) -> Iterator[Span]:
    """A paragraph, in pieces where it is long."""
    while end - start > _LONGEST:
        longest = start + _LONGEST
        # A piece of less than half the length says too little by itself.
        at = max(break_points(text, _CUTS, start + _LONGEST // 2, longest), default=longest)
        yield from stripped(text, start, at)
        start = at
    yield from stripped(text, start, end)


# --- what bears on a step ---

_PASSAGE, _SLACK = 800, 0.4
"""The characters of a passage, about two hundred tokens of English; and the share of that by which
a cut may be moved so that passages end with a paragraph."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What is left of a document.

    Args:
        text: the passages in document order, with a mark where text is left out, and below it the
            name of the document, where that is another one of several.
        passages: how many were chosen.
        of: how many there are.
        bearing: how many are relevant to the step; where it is 0, the first ones were chosen.
        characters: how many characters of the document are left.
    """

    text: str
    passages: int
    of: int
    bearing: int
    characters: int


def choose_passages(
    text: str,
    query: Mapping[str, float],
    room: int,
    count: Callable[[str], int],
    length: int = _PASSAGE,
) -> Excerpt | None:
    """The best passages that fit the room; the first ones where none is relevant.

    Args:
        text: the document.
        query: terms, as `passage_terms` gives them, each with its weight.
        room: the most tokens of the passages and the marks between them.
        count: counts the tokens of a text.
        length: about how many characters a passage has.

    Returns:
        The passages, or None where there is not room for one.
    """
    passages, weights = _passage_index(text, length)
    scores = with_neighbours(weights.scores(query))
    order = sorted(range(len(passages)), key=lambda at: -scores[at])
    bearing = [at for at in order if scores[at] > 0]
    sizes, names = _sizes(text, count, length), _names(text, length)
    mark = count(_mark(len(text)))
    chosen: list[int] = []
    named = {""}
    spare = room - mark
    for at in bearing or order:
        size = sizes[at] + mark + (0 if names[at] in named else count(names[at]))
        if size <= spare:
            chosen.append(at)
            named.add(names[at])
            spare -= size
    # The joined text may take a few more tokens than its pieces.
    while chosen and count(joined := _joined(text, passages, chosen, names)) > room:
        chosen.pop()
    if not chosen:
        return None
    characters = sum(passages[at].end - passages[at].start for at in chosen)
    return Excerpt(joined, len(chosen), len(order), len(bearing), characters)


def smallest_excerpt(text: str, count: Callable[[str], int]) -> int:
    """The tokens of the shortest passage, with its document's name and a mark on either side."""
    named = zip(_sizes(text, count), map(count, _names(text)), strict=True)
    return min(map(sum, named)) + 2 * count(_mark(len(text)))


def choose_paragraphs(
    document: Source, words: str, room: int, count: Callable[[str], int]
) -> Excerpt | None:
    """The paragraphs that are most relevant to some words; the first ones where none is.

    Args:
        document: the document; Markdown's headings are shown above their paragraphs.
        words: what is looked for.
        room: the most tokens of the paragraphs.
        count: counts the tokens of a text.

    Returns:
        The paragraphs, or None where there is not room for one.
    """
    retriever = DocumentRetriever(document)
    paragraphs = {paragraph.id: paragraph for paragraph in retriever.paragraphs}
    best = [paragraph.id for paragraph in retriever.search(words, len(paragraphs))]
    texts: dict[str, str] = {}
    for id in best or paragraphs:
        text = retriever.shown(paragraphs[id])
        size = count(text)
        if size <= room:
            texts[id] = text
            room -= size
    if not texts:
        return None
    text = "".join(texts[id] for id in paragraphs if id in texts)
    characters = sum(span.end - span.start for span in (paragraphs[id].span for id in texts))
    return Excerpt(text, len(texts), len(paragraphs), len(best), characters)


def passage_terms(text: str) -> list[str]:
    """Stems of words; for scripts without spaces, every two neighbouring characters."""
    runs = [run for run in UNSPACED.findall(text) if len(run) > 1]
    return [*words(text), *(pair for run in runs for pair in pairs_of(run))]


# Many steps, and many questions, ask for passages of one document.
@lru_cache(maxsize=8)
def _passage_index(text: str, length: int) -> tuple[list[Span], Weights]:
    passages = spans(text, max(1, round(len(text) / length)), _SLACK)
    terms = [passage_terms(text[start:end]) for start, end in passages]
    return passages, weigh(terms, k1=1.5, b=0.75)


@lru_cache(maxsize=8)
def _sizes(text: str, count: Callable[[str], int], length: int = _PASSAGE) -> tuple[int, ...]:
    return tuple(count(text[start:end]) for start, end in _passage_index(text, length)[0])


@lru_cache(maxsize=8)
def _names(text: str, length: int = _PASSAGE) -> tuple[str, ...]:
    return tuple(names_above(text, _passage_index(text, length)[0]))


def _joined(
    text: str, passages: Sequence[Span], chosen: Sequence[int], names: Sequence[str]
) -> str:
    """Passages in document order; those that stand side by side stay one text, and those of another
    document than the ones before have its name above them."""
    pieces: list[str] = []
    end = 0
    for _, run in groupby(enumerate(sorted(chosen)), key=lambda place: place[1] - place[0]):
        places = [at for _, at in run]
        start = passages[places[0]].start
        if start > end:
            pieces.append(_mark(start - end))
            if text.find(START, end, start) >= 0:
                pieces.append(names[places[0]])
        end = passages[places[-1]].end
        pieces.append(text[start:end])
    if end < len(text):
        pieces.append(_mark(len(text) - end))
    return "".join(pieces).strip("\n")


def _mark(characters: int) -> str:
    return f"\n\n[… {characters:,} characters left out …]\n\n"
