"""The passages that an answer's steps were given, where no step quotes any."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pearl.retrieval import DocumentRetriever, sentences
from pearl.runtime.evidence import Quote
from pearl.runtime.journal import Entry
from pearl.source import Source, Span

_VALUE = re.compile(r"(?:step/(?P<within>[^/\[]+).*/)?value/(?P<step>[^/]+)")
_SAYS_NOTHING = frozenset({"yes", "no", "true", "false"})
"""Answers whose words a sentence may have for any reason."""


def passages_given(entries: Sequence[Entry], answer: str, document: Source) -> list[Quote]:
    """The sentences that hold an answer's words, of the passages that were looked up for it.

    A passage is a paragraph of the document that an output has to the letter,
    as what searches it gives them. The last output with such a sentence
    counts: the answer was made from what was seen last. That the sentence is
    why the model gave the answer is not known.

    Args:
        entries: the run's journal, its frames within frames too.
        answer: its words; of several lines each stands by itself.
        document: where the passages are from.

    Returns:
        The sentences in document order; none for a yes or a no.
    """
    wanted = [re.compile(one, re.IGNORECASE) for one in _phrases(answer)]
    if not wanted:
        return []
    for entry in reversed(entries):
        told = _VALUE.fullmatch(entry.path)
        if told is None or entry.status != "done":
            continue
        step = told["within"] or told["step"]
        texts = list(_texts(entry.value))
        found = [
            Quote(document.at(span), span, step)
            for span in _sentences(texts, document)
            if any(_holds(document.at(span), one) for one in wanted)
        ]
        if found:
            return found
    return []


def _sentences(texts: Sequence[str], document: Source) -> Iterator[Span]:
    """Those of the paragraphs that the texts have."""
    for one in DocumentRetriever(document).paragraphs:
        paragraph = document.at(one.span)
        if any(paragraph in text for text in texts):
            for start, end in sentences(paragraph):
                yield Span(one.span.start + start, one.span.start + end)


def _holds(sentence: str, phrase: re.Pattern[str]) -> bool:
    found = phrase.search(sentence)
    # A heading that is the answer says nothing of it.
    return found is not None and bool(re.search(r"\w", phrase.sub("", sentence)))


def _phrases(answer: str) -> Iterator[str]:
    for line in answer.splitlines():
        words = re.findall(r"\w+", line)
        if words and " ".join(words).casefold() not in _SAYS_NOTHING:
            phrase = r"\W+".join(map(re.escape, words))
            yield rf"(?<!\w){phrase}(?!\w)"


def _texts(value: Any) -> Iterable[str]:  # noqa: ANN401 - any JSON
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)
