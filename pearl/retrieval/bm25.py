"""BM25 within a document, with bm25s: how well each of some texts bears on a query."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pearl.lang.source import Span
from pearl.lang.text import FUNCTION_WORDS
from pearl.retrieval.terms import sentences, stem

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Weights:
    """What each term of each text is worth.

    Args:
        count: how many texts there are.
        table: bm25s' own.
    """

    count: int
    table: Any

    def scores(self, query: Mapping[str, float]) -> np.ndarray[Any, np.dtype[np.float64]]:
        """How well each text bears on a query.

        Args:
            query: terms, each with what it is worth beside the others.

        Returns:
            A score for each text, in order; 0 where it has none of the terms.
        """
        import numpy as np

        total = np.zeros(self.count)
        for weight in sorted(set(query.values())):
            known = [term for term, own in query.items() if own == weight]
            known = [term for term in known if term in self.table.vocab_dict]
            if known:
                total += weight * self.table.get_scores(known)
        return total


def weigh(texts: Sequence[Sequence[str]], k1: float, b: float) -> Weights:
    """Weigh the terms of texts (Robertson and Zaragoza, 2009, section 3.2).

    Args:
        texts: the terms of each, in order.
        k1: how much a term's second mention adds to its first.
        b: how far a long text's mentions count for less, from 0 to 1.
    """
    import bm25s

    table = bm25s.BM25(k1=k1, b=b)
    # It takes neither no text at all nor a text of no terms; nobody asks for this one.
    table.index([list(terms) or [""] for terms in texts] or [[""]], show_progress=False)
    return Weights(len(texts), table)


_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")

STOP = FUNCTION_WORDS | frozenset(
    """
    according article author best document following get he her him his i just like may me might
    must my no not one our own passage said say says she story text these those too up us very
    we why you your
    """.split()
)


def words(text: str) -> list[str]:
    """A text's content words as stems, in order."""
    found = [word.lower().replace("’", "'") for word in _WORD.findall(text)]
    plain = [word.removesuffix("'s") for word in found]
    return stems([word for word in plain if word not in STOP and len(word) > 1])


def stems(plain: Sequence[str]) -> list[str]:
    """The stems of words in lower case."""
    return [stem(word) for word in plain]


@dataclass(frozen=True)
class SentenceIndex:
    """A document's sentences, ready to be asked."""

    text: str
    spans: tuple[Span, ...]
    stems: tuple[frozenset[str], ...]
    weights: Weights

    def scores(self, query: Mapping[str, float]) -> np.ndarray[Any, np.dtype[np.float64]]:
        """How well each sentence bears on weighted stems (BM25), with a share of
        its neighbours' scores, as an answer often stands beside the words asked for."""
        import numpy as np

        total = self.weights.scores(query)
        near = np.zeros_like(total)
        near[1:] += total[:-1]
        near[:-1] += total[1:]
        return (total + 0.25 * near) * self._coverage(query)

    def _coverage(self, query: Mapping[str, float]) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The share of the query that each sentence holds, a rare word counting for more,
        so that neither one word in a short sentence nor a name on every page outweighs
        several of the words asked for."""
        import numpy as np

        total, whole = np.zeros(len(self.spans)), 0.0
        for term, own in query.items():
            holds = np.fromiter((term in held for held in self.stems), bool, len(self.spans))
            count = int(holds.sum())
            if count:
                worth = own * math.log(1 + len(self.spans) / count)
                total += worth * holds
                whole += worth
        return total / (whole or 1.0) + 0.1


@lru_cache(maxsize=16)
def index_sentences(text: str) -> SentenceIndex:
    """Index a document; asked for again, it is the same one."""
    spans = tuple(sentences(text))
    tokens = [words(text[span.start : span.end]) for span in spans]
    # Less regard for length than is usual: a sentence is short in any case.
    weights = weigh(tokens, k1=1.2, b=0.3)
    return SentenceIndex(text, spans, tuple(map(frozenset, tokens)), weights)
