"""Sentences and words of a document, and how well each sentence bears on a query."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pearl.retrieval.bm25 import Weights, weigh
from pearl.retrieval.words import stem
from pearl.source import Span

if TYPE_CHECKING:
    import numpy as np

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*|\n(?=[^\S\n]*[-*•]\s)")
_HEADING = re.compile(r"[^\S\n]*[^\n]{0,59}[^\n\s.!?,;:…\"”’)—-][^\S\n]*\n(?=\s*[\"“‘(]?[^\W_])")
_END = re.compile(
    r"[.!?…؟।](?P<close>[\"'”’»)\]]*)\s+(?=[\"'“‘«„(\[]*(?P<next>[^\W_]))|[。！？]+[」』”’）]*"
)
_ABBREVIATED = re.compile(
    r"\b(?:Mr|Mrs|Ms|Mme|Mlle|Dr|St|Prof|Rev|Hon|Capt|Col|Gen|Maj|Sgt|Lt|Gov|Sen|Rep|Jr|Sr|Mt|Ft"
    r"|vs|cf|viz|ca|[A-HJ-Z])$"
)
_NUMBERED = re.compile(r"\b(?:[Nn]os?|pp?|[Ff]igs?|[Vv]ol|[Cc]h)$")
_QUOTED = re.compile(
    r"\"[^\"]*(?:\"|$)|“[^”]*(?:”|$)|«[^»]*(?:»|$)|„[^“”]*(?:[“”]|$)|「[^」]*(?:」|$)"
)
_SPEECH = 400
"""Characters that quotation marks hold together; a longer speech has sentences of its own."""

_LONGEST = 1000
"""Characters of a sentence; what runs on without an end is cut at white space."""

STOP = frozenset(
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
    return stems([word for word in plain if word not in STOP and len(word) > 1])


def stems(plain: Sequence[str]) -> list[str]:
    """The stems of words in lower case."""
    return [stem(word) for word in plain]


def sentences(text: str) -> list[Span]:
    """Where each sentence stands, without the white space around it.

    What somebody says in quotes stays whole, with its quotes, as long as its
    paragraph lasts and it is no long speech. A heading is a sentence.
    """
    found: list[Span] = []
    start = 0
    for between in (*_PARAGRAPH.finditer(text), None):
        end = between.start() if between else len(text)
        heading = _HEADING.match(text, start, end)
        if heading and text[heading.end() : heading.end() + 2].strip('"“‘( ')[:1].isupper():
            _keep(found, text, start, heading.end())
            start = heading.end()
        _split(found, text, start, end)
        start = between.end() if between else end
    return found


def _split(found: list[Span], text: str, start: int, end: int) -> None:
    """The sentences of one paragraph."""
    speeches = [one.span() for one in _QUOTED.finditer(text, start, end)]
    whole = deque(Span(*one) for one in speeches if one[1] - one[0] <= _SPEECH)
    for stop in _END.finditer(text, start, end):
        if stop["next"] and (stop["next"].islower() or _abbreviated(text, start, stop)):
            continue
        at = stop.end("close") if stop["next"] else stop.end()
        while whole and whole[0].end <= at:
            whole.popleft()
        if not whole or at <= whole[0].start:
            _keep(found, text, start, at)
            start = at
    _keep(found, text, start, end)


def _abbreviated(text: str, start: int, stop: re.Match[str]) -> bool:
    """Whether a full stop only shortens the word before it."""
    at = stop.start()
    if text[at] != ".":
        return False
    word = text[max(start, at - 8) : at]
    numbered = stop["next"].isdigit() and _NUMBERED.search(word)
    return bool(numbered or _ABBREVIATED.search(word))


def _keep(found: list[Span], text: str, start: int, end: int) -> None:
    while end - start > _LONGEST:
        at = max(text.rfind(mark, start + 1, start + _LONGEST) for mark in (" ", "\n", "\t"))
        at = at if at > start else start + _LONGEST
        _keep(found, text, start, at)
        start = at
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
        for one_stem, own in query.items():
            holds = np.fromiter((one_stem in one for one in self.stems), bool, len(self.spans))
            count = int(holds.sum())
            if count:
                worth = own * math.log(1 + len(self.spans) / count)
                total += worth * holds
                whole += worth
        return total / (whole or 1.0) + 0.1


@lru_cache(maxsize=16)
def index(text: str) -> Index:
    """Index a document; asked for again, it is the same one."""
    spans = tuple(sentences(text))
    tokens = [words(text[span.start : span.end]) for span in spans]
    # Less regard for length than is usual: a sentence is short in any case.
    weights = weigh(tokens, k1=1.2, b=0.3)
    return Index(text, spans, tuple(map(frozenset, tokens)), weights)
