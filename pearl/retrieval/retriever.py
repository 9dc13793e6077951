"""What is read of a text: passages that a retriever finds, paragraphs, and parts.

A document is searched by its paragraphs. Where it does not fit a prompt, the passages or the
paragraphs that bear on a step are chosen, in the document's order; or it is cut into contiguous
parts of like size.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from itertools import groupby, takewhile
from math import ceil
from typing import Protocol

from pearl.lang.ast import DOCUMENT
from pearl.lang.builtins import MOST, label, read_label, read_name
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
    """Passages as texts for a model, in order: each to the letter, after its title and a colon."""
    return [f"{item.title}: {item.text}" if item.title else item.text for item in passages]


def near(score: float, other: float) -> bool:
    """Whether two scores are one but for the last digits of their sums."""
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


_BETWEEN = re.compile(r"\n[^\S\n]*\n\s*")
_HEADING = re.compile(r"(#{1,6})[^\S\n]+(\S[^\n]*)(?:\n\s*|\Z)")
_LONGEST = 2000
"""Characters of a paragraph; a longer one is cut."""

_SENTENCE = re.compile(r"[.!?…][\"'”’»)\]]*\s+|[。！？][”’」』）]*")
_SPACE = re.compile(r"\s+")
_CUTS = (re.compile(r"\n\s*"), _SENTENCE, _SPACE)
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
    paragraphs = ((paragraph.title, *paragraph.span) for paragraph in _paragraphs(text))
    read = [field_terms(title, text[start:end]) for title, start, end in paragraphs]
    return weigh(read, k1=1.2, b=0.75)


@lru_cache(maxsize=8)
def _paragraphs(text: str) -> tuple[Paragraph, ...]:
    """The paragraphs; Markdown's headings are their titles, and none themselves."""
    paragraphs: list[Paragraph] = []
    titles: list[tuple[int, str]] = []
    for start, end in blocks(text, _BETWEEN):
        while heading := _HEADING.match(text, start, end):
            # What stands in one of several documents has its name for a title.
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
        at = max(_places(text, _CUTS, start + _LONGEST // 2, longest), default=longest)
        yield from stripped(text, start, at)
        start = at
    yield from stripped(text, start, end)


def _places(text: str, cuts: Iterable[re.Pattern[str]], start: int, end: int) -> list[int]:
    """Where a stretch of a text may be cut: behind the matches of the first cut that has any."""
    found = ([match.end() for match in cut.finditer(text, start, end)] for cut in cuts)
    return next(filter(None, found), [])


# --- parts of like size ---

_BREAKS = (
    _BETWEEN,
    re.compile(r"[.!?…。！？:][\"'”’»」』)\]]*[^\S\n]*\n\s*"),  # a line that ends a sentence
    _SENTENCE,
    _SPACE,
)
"""Where a text may be cut, the best places first."""

_AT_HEADING = re.compile(r"^#{1,6} [^\n]*\n\s*\Z", re.MULTILINE)
"""One of Markdown's at the end of a text."""


class LabelError(Exception):
    """A label of a part that does not exist."""


def spans(text: str, number: int, slack: float = 0.15) -> list[Span]:
    """Cut a text into so many parts; together they are the text.

    Args:
        text: any text; one with fewer characters than parts gives empty parts.
        number: how many parts, at least 1.
        slack: how far from its even place a cut may be moved to fall between
            paragraphs, or else sentences, or else words; a share of a part,
            below 0.5.
    """
    size = len(text) / number
    ends = [0]
    for at in range(1, number):
        ends.append(max(ends[-1], _break(text, round(at * size), int(size * slack))))
    return [Span(start, end) for start, end in zip(ends, [*ends[1:], len(text)], strict=True)]


def _break(text: str, target: int, reach: int) -> int:
    if places := _places(text, _BREAKS, target - reach, target + reach):
        # A heading belongs to what follows it.
        apart = [at for at in places if not _AT_HEADING.search(text, max(0, at - 300), at)]
        return min(apart or places, key=lambda place: abs(place - target))
    # Text that people write has no more marks on a character (UAX #15, stream-safe text).
    marks = takewhile(unicodedata.combining, text[target : target + 30])
    return target + len(list(marks))


def enough_parts(text: str, room: int, count: Callable[[str], int]) -> int | None:
    """How many parts of like size it takes for none to be longer than the room.

    Args:
        text: the document.
        room: tokens a part may have.
        count: counts them.

    Returns:
        The least number, or one little more, or None where `MOST` are not enough.
    """
    number = ceil(count(text) / room) if room > 0 else MOST + 1
    number = max(number, 1)
    while number <= MOST:
        if max(count(text[start:end]) for start, end in spans(text, number)) <= room:
            return number
        number += 1 + number // 16
    return None


def part(document: Source, name: str) -> Source:
    """The part of a document that a label names, as ``CTX 2/3``, or one of several documents, as
    ``CTX.lease.pdf``, its ending at will; or a `LabelError`."""
    if read := read_name(name):
        span = document.named(read)
        if span is None:
            names = [*document.documents]
            # It may lack a folder as well as its ending.
            forms = ((one, f"/{one}", f"/{os.path.splitext(one)[0]}") for one in names)
            near = [one for one, *paths in forms if any(at.endswith(f"/{read}") for at in paths)]
            like = near or get_close_matches(read, names, 1)
            may = " or ".join(f"{DOCUMENT}.{one}" for one in like)
            if len(near) > 1:
                raise LabelError(f"{name} may be {may}: write which.")
            there = ", ".join(names) or f"there is one only, {DOCUMENT}"
            meant = f" Did you mean {may}?" if may else ""
            raise LabelError(f"{name} names none of the documents: {there}.{meant}")
        return Source(read, document.at(span))
    at, of = read_label(name) or (0, 0)
    if not 1 <= at <= of <= MOST:
        last = min(max(of, 1), MOST)
        raise LabelError(
            f"{name} names no part of the document: parts go from {label(1, last)} to "
            f"{label(last, last)}."
        )
    return _parts(document, of)[at - 1]


# A document's parts open the prompts of many steps: the same text need not be cut for each.
@lru_cache(maxsize=16)
def _parts(document: Source, number: int) -> tuple[Source, ...]:
    return tuple(
        Source(f"{document.name} ({at}/{number})", document.at(span))
        for at, span in enumerate(spans(document.text, number), 1)
    )


# --- what bears on a step ---

_PASSAGE, _SLACK = 800, 0.4
"""Characters of a passage, about two hundred tokens of English; and the share by which passages
may differ in length to end where a paragraph does."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What is left of a document.

    Args:
        text: the passages in document order, with a mark where some is left out.
        passages: how many were chosen.
        of: how many there are.
        bearing: how many bear on the step at all; none are chosen by their place.
        characters: the document's characters that are left.
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
    """The best passages that there is room for.

    Args:
        text: the document.
        query: terms, as `passage_terms` gives them, and what each is worth.
        room: tokens that the passages and the marks between them may have.
        count: counts tokens.
        length: characters of a passage, about.

    Returns:
        The passages, or None where there is not room for one.
    """
    passages, weights = _passage_index(text, length)
    scores = with_neighbours(weights.scores(query))
    order = sorted(range(len(passages)), key=lambda at: -scores[at])
    bearing = [at for at in order if scores[at] > 0]
    sizes = _sizes(text, count, length)
    mark = count(_mark(len(text)))
    chosen: list[int] = []
    spare = room - mark
    for at in bearing or order:
        if sizes[at] + mark <= spare:
            chosen.append(at)
            spare -= sizes[at] + mark
    # Joined, texts may take a token more than they do apart.
    while chosen and count(_joined(text, passages, chosen)) > room:
        chosen.pop()
    if not chosen:
        return None
    characters = sum(passages[at].end - passages[at].start for at in chosen)
    joined = _joined(text, passages, chosen)
    return Excerpt(joined, len(chosen), len(order), len(bearing), characters)


def smallest_excerpt(text: str, count: Callable[[str], int]) -> int:
    """Tokens that one passage takes at the least, with a mark on either side."""
    return min(_sizes(text, count)) + 2 * count(_mark(len(text)))


def choose_paragraphs(
    document: Source, words: str, room: int, count: Callable[[str], int]
) -> Excerpt | None:
    """The paragraphs that bear most on some words; the first ones where none does.

    Args:
        document: Markdown's headings are shown above their paragraphs.
        words: what is looked for.
        room: tokens that the paragraphs may have.
        count: counts tokens.

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
    """Stems of words; for scripts without spaces, every two characters that stand together."""
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


def _joined(text: str, passages: Sequence[Span], chosen: Sequence[int]) -> str:
    """Passages in document order; those that stand side by side stay one text."""
    pieces: list[str] = []
    end = 0
    for _, run in groupby(enumerate(sorted(chosen)), key=lambda place: place[1] - place[0]):
        places = [at for _, at in run]
        start = passages[places[0]].start
        if start > end:
            pieces.append(_mark(start - end))
        end = passages[places[-1]].end
        pieces.append(text[start:end])
    if end < len(text):
        pieces.append(_mark(len(text) - end))
    return "".join(pieces).strip("\n")


def _mark(characters: int) -> str:
    return f"\n\n[… {characters:,} characters left out …]\n\n"
