"""BM25 within a document, with bm25s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
