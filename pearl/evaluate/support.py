"""Which sentences of a document an answer's quotes are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pearl.evaluate.datasets.multihop import Fact, MultiHop, Paragraph, folded

CLOSE = 85.0
"""How alike a quote and a sentence are at least, of 100 (rapidfuzz' ratio)."""

SHORTEST = 4
"""Words of a quote that is a part of a sentence, at least."""

NOWHERE = -1
"""The number of a fact that no sentence is: a quote that the document does not have."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A sentence in the folded text of a document."""

    fact: Fact
    text: str
    start: int
    end: int


def facts_of(data: MultiHop, quotes: Iterable[str]) -> frozenset[Fact]:
    """The facts that quotes stand for.

    A quote stands for the sentences that it has at least half of, white space
    aside; where it is a part of one sentence, for that one; where it is not to
    the letter, for the sentence, or the two neighbours, that it is closest to.
    One that is close to none is a fact that no document has, and so a wrong one.

    Args:
        data: the paragraphs; its unit says what a fact is.
        quotes: sentences as a model copied them.
    """
    text, places = _folded(data)
    found: set[Fact] = set()
    for quote in filter(None, map(_bare, quotes)):
        here = _exact(quote, text, places) or _close(quote, data, places)
        found.update(here or (Fact(quote, NOWHERE),))
    return frozenset(found)


def _bare(quote: str) -> str:
    """A quote without the marks that say it is one."""
    return folded(quote.strip().removeprefix(">")).strip('"“”')


def _folded(data: MultiHop) -> tuple[str, tuple[_Place, ...]]:
    """The document in one line, and where its sentences stand there."""
    text = ""
    places: list[_Place] = []
    for paragraph in data.paragraphs:
        text += f"# {paragraph.title} "
        for number, sentence in enumerate(paragraph.sentences):
            if sentence.text:
                fact = _fact(data, paragraph, number)
                places.append(_Place(fact, sentence.text, len(text), len(text + sentence.text)))
                text += f"{sentence.text} "
    return text, tuple(places)


def _fact(data: MultiHop, paragraph: Paragraph, number: int) -> Fact:
    return Fact(paragraph.title, paragraph.number if data.unit == "paragraph" else number)


def _exact(quote: str, text: str, places: Sequence[_Place]) -> list[Fact]:
    # A sentence that two paragraphs have is the first one's, whichever is gold.
    whole = [place.fact for place in places if place.text == quote]
    if whole:
        return whole[:1]
    start = text.find(quote)
    if start < 0:
        return []
    covered = [(_shared(place, start, start + len(quote)), place) for place in places]
    most = [place.fact for shared, place in covered if 2 * shared >= len(place.text)]
    if most or len(quote.split()) < SHORTEST:
        return most
    shared, place = max(covered, key=lambda one: one[0])
    return [place.fact] if shared else []


def _shared(place: _Place, start: int, end: int) -> int:
    return max(0, min(end, place.end) - max(start, place.start))


def _close(quote: str, data: MultiHop, places: Sequence[_Place]) -> list[Fact]:
    """The sentence, or two neighbours, that a quote is closest to, if it is close to any."""
    from rapidfuzz import fuzz, process

    choices: list[tuple[tuple[Fact, ...], str]] = [((one.fact,), one.text) for one in places]
    choices += [
        ((_fact(data, paragraph, at), _fact(data, paragraph, at + 1)), text)
        for paragraph in data.paragraphs
        for at, text in _neighbours(paragraph)
    ]
    found = process.extractOne(
        quote.casefold(),
        [text.casefold() for _, text in choices],
        scorer=fuzz.ratio,
        score_cutoff=CLOSE,
    )
    return list(choices[found[2]][0]) if found else []


def _neighbours(paragraph: Paragraph) -> Iterator[tuple[int, str]]:
    for at, (one, other) in enumerate(pairwise(paragraph.sentences)):
        if one.text and other.text:
            yield at, f"{one.text} {other.text}"
