"""The paragraphs of a document, and those that bear on a sub-question.

A title that the sub-question names counts above any words; then a paragraph
that the best one names, or that names the best one, as the two are linked.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from pearl.llm.offline.multihop.given import ASKED, NOTE
from pearl.llm.offline.text import words
from pearl.retrieval import DocumentRetriever, terms
from pearl.retrieval.sentences import sentences
from pearl.source import Source

NAMED = 1.2
"""What a title that the question names is worth beside the best score of BM25."""

BETWEEN = 0.35
"""What a link to or from the best paragraph is worth."""

LEADING = 2
"""How many paragraphs lead to others."""

SUFFIX = re.compile(r"\s*\([^()]*\)\s*$")
"""What tells a title from others of its name: *Lund (film)*."""

TITLE = 120
"""Characters of a title, at most; a colon behind more stands within a sentence."""

_MARKS = re.compile(r"[^\w]+")


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of a document.

    Args:
        title: what it stands under; may be empty.
        text: to the letter.
        sentences: of the text, to the letter, in order.
        stems: of the title's and the text's words.
        score: how well it bears on the question.
        named: whether the question names its title.
    """

    title: str
    text: str
    sentences: tuple[str, ...]
    stems: frozenset[str]
    score: float = 0.0
    named: bool = False


@dataclass(frozen=True)
class Read:
    """A document, ready to be asked."""

    retriever: DocumentRetriever
    paragraphs: tuple[Paragraph, ...]
    titles: tuple[tuple[str, str], ...]
    plain: tuple[str, ...]


@lru_cache(maxsize=16)
def read(text: str) -> Read:
    """Read a document's paragraphs; asked for again, it is the same one."""
    source = Source("document", text)
    retriever = DocumentRetriever(source)
    found = []
    for one in retriever.paragraphs:
        own = source.at(one.span)
        spans = sentences(own)
        told = tuple(own[span.start : span.end] for span in spans)
        stems = frozenset(words(f"{one.title} {own}"))
        found.append(Paragraph(one.title, own, told, stems))
    titles = tuple((plain(one.title), plain(SUFFIX.sub("", one.title))) for one in found)
    return Read(retriever, tuple(found), titles, tuple(plain(one.text) for one in found))


def rank(text: str, question: str) -> list[Paragraph]:
    """The paragraphs of a document that bear on a question, best first."""
    known = read(text)
    question = NOTE.sub("", question)[:ASKED]
    found = {int(one.id) - 1: one.score for one in known.retriever.search(question, 1000)}
    highest = max(found.values(), default=1.0)
    named = _named(known, plain(question))
    scores = {at: found.get(at, 0.0) / highest + named.get(at, 0.0) for at in {*found, *named}}
    leading = sorted(scores, key=lambda at: (-scores[at], at))[:LEADING]
    for place, first in enumerate(leading):
        for at in _linked(known, first):
            if at not in leading[: place + 1]:
                scores[at] = scores.get(at, 0.0) + BETWEEN / (place + 1)
    order = sorted(scores, key=lambda at: (-scores[at], at))
    return [replace(known.paragraphs[at], score=scores[at], named=at in named) for at in order]


def titles(ranked: list[Paragraph], most: int = 5) -> list[str]:
    """The different titles of paragraphs, in order."""
    return list(dict.fromkeys(one.title for one in ranked if one.title))[:most]


def plain(text: str) -> str:
    """A text's words for comparing names: no case, no marks, no accents, spaces around."""
    if not text.isascii():
        kept = unicodedata.normalize("NFKD", text)
        text = "".join(char for char in kept if not unicodedata.combining(char))
    return f" {_MARKS.sub(' ', text.casefold()).strip()} "


def _named(known: Read, question: str) -> dict[int, float]:
    """The paragraphs whose title stands in a question; the longest name of a place counts."""
    hits = [
        (len(name), place, at, name == whole)
        for at, (whole, short) in enumerate(known.titles)
        for name in dict.fromkeys((whole, short))
        if name.strip() and (place := question.find(name)) >= 0
    ]
    taken: list[tuple[int, int]] = []
    found: dict[int, float] = {}
    for length, place, at, full in sorted(hits, key=lambda hit: (-hit[0], hit[1], hit[2])):
        inside = [one for one in taken if one[0] <= place and place + length <= one[1]]
        if inside and (place, place + length) not in inside:
            continue
        taken.append((place, place + length))
        # A name of one short word may be any word of the question.
        sure = min(1.0, len(terms(question[place : place + length])) / 2)
        found.setdefault(at, (NAMED if full else 0.9 * NAMED) * (0.5 + 0.5 * sure))
    return found


def _linked(known: Read, first: int) -> list[int]:
    """The paragraphs that one names, or that name it."""
    own = known.titles[first][1]
    found = []
    for at, (_, name) in enumerate(known.titles):
        if at == first or name.strip() == own.strip():
            continue
        there = bool(name.strip()) and name in known.plain[first]
        back = bool(own.strip()) and own in known.plain[at]
        if there or back:
            found.append(at)
    return found


def under_titles(passages: Iterable[str]) -> str:
    """Passages that begin with their title and a colon, as paragraphs under their titles.

    Args:
        passages: as a search gives them.
    """
    return "".join(map(_paragraph, dict.fromkeys(passages)))


def _paragraph(passage: str) -> str:
    title, colon, text = passage.partition(": ")
    if not colon or len(title) > TITLE or "\n" in title:
        return f"{passage}\n\n"
    return f"# {title}\n\n{text}\n\n"
