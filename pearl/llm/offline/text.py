"""Sentences and words of a document, and how well each sentence bears on a query."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pearl.source import Span

if TYPE_CHECKING:
    import numpy as np

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+(?=[\"'“‘(\[]*[A-Z0-9])|\s*\n\s*\n\s*|\n(?=\s*[-*•])")
_ABBREVIATED = re.compile(r"(?:\b(?:Mr|Mrs|Ms|Dr|St|Prof|Capt|Col|Gen|Lt|No|vs|etc|[A-Z])\.)$")
_STOP = frozenset(
    """
    a about all also an and any are as at be been being but by can could did do does for from
    get had has have he her him his how i if in into is it its just like may me might more most
    must my no not of on one or our out over own she should so some such than that the their
    them then there these they this those to too up us very was we were what when where which
    while who whom whose why will with would you your said says say story article passage text
    author document according following best
    """.split()
)


def words(text: str) -> list[str]:
    """A text's content words as stems, in order."""
    found = [word.lower().replace("’", "'") for word in _WORD.findall(text)]
    plain = [word.removesuffix("'s") for word in found]
    return stems([word for word in plain if word not in _STOP and len(word) > 1])


def stems(plain: Sequence[str]) -> list[str]:
    """The stems of words in lower case."""
    return [_stem(word) for word in plain]


@lru_cache(maxsize=65536)
def _stem(word: str) -> str:
    return str(_stemmer().stemWord(word))


@lru_cache(maxsize=1)
def _stemmer() -> Any:  # noqa: ANN401 - snowballstemmer is untyped
    import snowballstemmer

    return snowballstemmer.stemmer("english")


def sentences(text: str) -> list[Span]:
    """Where each sentence stands, without the white space around it.

    What somebody says in quotes stays whole, with its quotes, as long as its
    paragraph lasts.
    """
    found: list[Span] = []
    start = 0
    for end in _END.finditer(text):
        stop = end.start() + len(end[0]) - len(end[0].lstrip("\"'”’)]"))
        paragraph = "\n" in end[0]
        if not paragraph:
            said = text[start:stop]
            quoting = said.count('"') % 2 or said.count("“") > said.count("”")
            if quoting or _ABBREVIATED.search(said[-8:]):
                continue
        _keep(found, text, start, stop)
        start = end.end()
    _keep(found, text, start, len(text))
    return found


def _keep(found: list[Span], text: str, start: int, end: int) -> None:
    body = text[start:end]
    start += len(body) - len(body.lstrip())
    end = start + len(body.strip())
    if end > start:
        found.append(Span(start, end))


@dataclass(frozen=True)
class Index:
    """A document's sentences, ready to be asked."""

    text: str
    spans: tuple[Span, ...]
    stems: tuple[frozenset[str], ...]
    retriever: Any

    def scores(self, query: Mapping[str, float]) -> np.ndarray[Any, np.dtype[np.float64]]:
        """How well each sentence bears on weighted stems (BM25), with a share of
        its neighbours' scores, as an answer often stands beside the words asked for."""
        import numpy as np

        total = np.zeros(len(self.spans))
        for weight in sorted(set(query.values())):
            known = [stem for stem, own in query.items() if own == weight]
            known = [stem for stem in known if stem in self.retriever.vocab_dict]
            if known:
                total += weight * self.retriever.get_scores(known)
        near = np.zeros_like(total)
        near[1:] += total[:-1]
        near[:-1] += total[1:]
        return (total + 0.25 * near) * self._coverage(query)

    def _coverage(self, query: Mapping[str, float]) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The share of the query that each sentence holds, so that one rare word in
        a short sentence does not outweigh several of the words asked for."""
        import numpy as np

        whole = sum(query.values()) or 1.0
        held = [sum(query.get(stem, 0.0) for stem in stems) for stems in self.stems]
        return np.asarray(held) / whole + 0.1


@lru_cache(maxsize=16)
def index(text: str) -> Index:
    """Index a document; asked for again, it is the same one."""
    import bm25s

    spans = tuple(sentences(text))
    tokens = [words(text[span.start : span.end]) or ["-"] for span in spans]
    retriever = bm25s.BM25()
    retriever.index(tokens, show_progress=False)
    return Index(text, spans, tuple(map(frozenset, tokens)), retriever)
