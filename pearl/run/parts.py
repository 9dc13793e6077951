"""A long text in parts, and what is read of it where it does not fit.

Parts are contiguous, of like size, and cut where a reader would pause; passages and paragraphs
are those that bear on a step, in the document's order.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from math import ceil

from pearl.lang.builtins import MOST, label, read_label
from pearl.lang.source import Source, Span
from pearl.lang.values import as_text
from pearl.prompts.calls import ExecuteStep
from pearl.retrieval.bm25 import Weights, weigh, words
from pearl.retrieval.retriever import DocumentRetriever

_BREAKS = tuple(
    re.compile(pattern)
    for pattern in (
        r"\n[^\S\n]*\n\s*",  # a blank line
        r"[.!?…。！？:][\"'”’»」』)\]]*[^\S\n]*\n\s*",  # a line that ends a sentence
        r"[.!?…][\"'”’»)\]]*\s+|[。！？][”’」』）]*",  # a sentence
        r"\s+",
    )
)
"""Where a text may be cut, the best places first."""


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
    reach = int(size * slack)
    ends = [0]
    for at in range(1, number):
        ends.append(max(ends[-1], _cut(text, round(at * size), reach)))
    return [Span(start, end) for start, end in zip(ends, [*ends[1:], len(text)], strict=True)]


def _cut(text: str, target: int, reach: int) -> int:
    for pattern in _BREAKS:
        places = [found.end() for found in pattern.finditer(text, target - reach, target + reach)]
        if places:
            return min(places, key=lambda place: abs(place - target))
    while target < len(text) and unicodedata.combining(text[target]):
        target += 1
    return target


def enough_parts(text: str, room: int, count: Callable[[str], int]) -> int | None:
    """How many parts of like size it takes for none to be longer than the room.

    Args:
        text: the document.
        room: tokens a part may have.
        count: counts them.

    Returns:
        The least number, or one little more, or None where `MOST` are not enough.
    """
    number, total = 1, count(text)
    while room > 0:
        number = max(number, ceil(total / room))
        if number > MOST:
            break
        largest = max(count(text[start:end]) for start, end in spans(text, number))
        if largest <= room:
            return number
        number += 1 + number // 16
    return None


def part(document: Source, name: str) -> Source:
    """The part of a document that a label names.

    Args:
        document: the whole document.
        name: the label, as ``CTX 2/3``.

    Raises:
        LabelError: there is no such part.
    """
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


PASSAGE = 800
"""Characters of a passage, about two hundred tokens of English."""

_SLACK = 0.4
"""How far passages may differ in length to end where a paragraph does."""

_NEAR = 0.25
"""The share of its neighbours' worth that a passage has: what is told goes on."""

_LONG = 12
"""Words from which an argument is what an earlier step told, and no name of a thing."""

_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
"""Scripts that put no space between words."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is left of a document.

    Args:
        text: the passages in document order, with a mark where some is left out.
        passages: how many were chosen.
        of: how many there are.
        found: how many bear on the step at all; none are chosen by their place.
        characters: the document's characters that are left.
    """

    text: str
    passages: int
    of: int
    found: int
    characters: int


@dataclass(frozen=True)
class _Index:
    text: str
    spans: tuple[Span, ...]
    weights: Weights

    def scores(self, query: Mapping[str, float]) -> list[float]:
        """What each passage is worth."""
        own = [0.0, *map(float, self.weights.scores(query)), 0.0]
        return [
            score + _NEAR * (before + after)
            for before, score, after in zip(own, own[1:], own[2:], strict=False)
        ]


def choose_passages(
    text: str, query: Mapping[str, float], room: int, count: Callable[[str], int]
) -> Chosen | None:
    """The best passages that there is room for.

    Args:
        text: the document.
        query: terms and what each is worth, as `query_of` gives them.
        room: tokens that the passages and the marks between them may have.
        count: counts tokens.

    Returns:
        The passages, or None where there is not room for one.
    """
    index = _index(text)
    scores = index.scores(query)
    order = sorted(range(len(index.spans)), key=lambda at: -scores[at])
    bearing = [at for at in order if scores[at] > 0]
    sizes = _sizes(text, count)
    mark = count(_mark(len(text)))
    kept: list[int] = []
    left = room - mark
    for at in bearing or order:
        if sizes[at] + mark <= left:
            kept.append(at)
            left -= sizes[at] + mark
    # Joined, texts may take a token more than they do apart.
    while kept and count(_joined(index, kept)) > room:
        kept.pop()
    if not kept:
        return None
    characters = sum(index.spans[at].end - index.spans[at].start for at in kept)
    return Chosen(_joined(index, kept), len(kept), len(order), len(bearing), characters)


def choose_paragraphs(
    document: Source, words: str, room: int, count: Callable[[str], int]
) -> Chosen | None:
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
    for id in best or list(paragraphs):
        paragraph = paragraphs[id]
        heading = f"# {paragraph.title}\n\n" if paragraph.title else ""
        text = f"{heading}{document.at(paragraph.span)}\n\n"
        size = count(text)
        if size <= room:
            texts[id] = text
            room -= size
    if not texts:
        return None
    text = "".join(texts[id] for id in paragraphs if id in texts)
    characters = sum(span.end - span.start for span in (paragraphs[id].span for id in texts))
    return Chosen(text, len(texts), len(paragraphs), len(best), characters)


def query_of(call: ExecuteStep) -> Mapping[str, float]:
    """What a step looks for: its arguments' terms count most, its action's least."""
    query: dict[str, float] = {}
    asked = [(0.25, call.action.name.replace("_", " ").lower()), (0.6, call.step.note)]
    for _, value in call.arguments:
        text = as_text(value)
        asked.append((0.3 if len(text.split()) > _LONG else 1.0, text))
    for weight, text in asked:
        for term in _terms(text):
            query[term] = max(weight, query.get(term, 0.0))
    return query


def _terms(text: str) -> list[str]:
    """Stems of words; for scripts without spaces, every two characters that stand together."""
    found = words(text)
    for run in _UNSPACED.findall(text):
        found += [run[at : at + 2] for at in range(len(run) - 1)]
    return found


# Many steps, and many questions, ask for passages of one document.
@lru_cache(maxsize=8)
def _index(text: str) -> _Index:
    passages = tuple(spans(text, max(1, round(len(text) / PASSAGE)), _SLACK))
    terms = [_terms(text[start:end]) for start, end in passages]
    return _Index(text, passages, weigh(terms, k1=1.5, b=0.75))


@lru_cache(maxsize=8)
def _sizes(text: str, count: Callable[[str], int]) -> tuple[int, ...]:
    return tuple(count(text[start:end]) for start, end in _index(text).spans)


def _joined(index: _Index, kept: Sequence[int]) -> str:
    """Passages in document order; those that stand side by side stay one text."""
    shown: list[str] = []
    end = 0
    for _, run in groupby(enumerate(sorted(kept)), key=lambda one: one[1] - one[0]):
        places = [at for _, at in run]
        start = index.spans[places[0]].start
        if start > end:
            shown.append(_mark(start - end))
        end = index.spans[places[-1]].end
        shown.append(index.text[start:end])
    if end < len(index.text):
        shown.append(_mark(len(index.text) - end))
    return "".join(shown).strip("\n")


def _mark(characters: int) -> str:
    return f"\n\n[… {characters:,} characters left out …]\n\n"
