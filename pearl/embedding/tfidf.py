"""Term weights as vectors: no model, no network, the same everywhere.

Salton and Buckley, "Term-weighting approaches in automatic text retrieval",
Information Processing & Management 24(5), 1988, section 3.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

_WORD = re.compile(r"[^\W_]+")
_PIECE = 4
"""Characters of a piece of a word."""


@dataclass(frozen=True, slots=True)
class TfIdf:
    """Vectors over the terms of the texts that are compared.

    A text's terms are its words, its pairs of neighbouring words, and the
    pieces of four characters of each word with its ends marked. Words keep
    what they say of the order, pieces bring *directed* near *director*. Case,
    accents and punctuation do not count; stop words do, as *before* and
    *after* ask different things.

    A term that occurs n times in a text, and in d of the N texts, weighs
    n × (1 + ln((1 + N) / (1 + d))), so that what tells the texts apart weighs
    most. The words' part and the pieces' part of a vector have length 1 each:
    one changed word shows in both.
    """

    @property
    def identity(self) -> str:
        return "tf-idf, words and pieces of 4"

    async def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        folded = [_folded(text) for text in texts]
        words = _weighed([Counter(_words(one)) for one in folded])
        pieces = _weighed([Counter(_pieces(one)) for one in folded])
        return [one + other for one, other in zip(words, pieces, strict=True)]


def _folded(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKD", text.casefold())
    return _WORD.findall("".join(char for char in plain if not unicodedata.combining(char)))


def _words(words: Sequence[str]) -> Iterator[str]:
    yield from words
    yield from (f"{one} {other}" for one, other in pairwise(words))


def _pieces(words: Sequence[str]) -> Iterator[str]:
    for word in words:
        marked = f" {word} "
        for at in range(max(1, len(marked) - _PIECE + 1)):
            yield marked[at : at + _PIECE]


def _weighed(counts: Sequence[Counter[str]]) -> list[list[float]]:
    """A vector of length 1 for each text; of length 0 for one without terms."""
    holding = Counter(term for one in counts for term in one)
    rare = {term: 1 + math.log((1 + len(counts)) / (1 + texts)) for term, texts in holding.items()}
    vectors = [[one[term] * weight for term, weight in rare.items()] for one in counts]
    lengths = [math.hypot(*one) or 1.0 for one in vectors]
    return [[part / length for part in one] for one, length in zip(vectors, lengths, strict=True)]
