"""The passages of a document that bear on a step, in document order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pearl.context.parts import spans
from pearl.llm import ExecuteStep
from pearl.llm.offline.text import words
from pearl.retrieval.bm25 import Weights, weigh
from pearl.source import Span
from pearl.values import as_text

if TYPE_CHECKING:
    import numpy as np

_LENGTH = 800
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

    def scores(self, query: Mapping[str, float]) -> np.ndarray[Any, np.dtype[np.float64]]:
        import numpy as np

        total = self.weights.scores(query)
        near = np.zeros_like(total)
        near[1:] += total[:-1]
        near[:-1] += total[1:]
        return total + _NEAR * near


def choose(
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
    order = sorted(range(len(index.spans)), key=lambda at: (-scores[at], at))
    found = [at for at in order if scores[at] > 0]
    sizes = _sizes(text, count)
    mark = count(_mark(len(text)))
    kept: list[int] = []
    left = room - mark
    for at in found or order:
        if sizes[at] + mark <= left:
            kept.append(at)
            left -= sizes[at] + mark
    # Joined, texts may take a token more than they do apart.
    while kept and count(_joined(index, kept)) > room:
        kept.pop()
    if not kept:
        return None
    characters = sum(index.spans[at].end - index.spans[at].start for at in kept)
    return Chosen(_joined(index, kept), len(kept), len(order), len(found), characters)


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
    passages = tuple(spans(text, max(1, round(len(text) / _LENGTH)), _SLACK))
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
