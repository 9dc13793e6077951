"""Questions over several paragraphs: their document, their gold facts, and how they are scored.

The document is Markdown: a heading and a paragraph for each, its sentences
with a space between them. A method reads that and quotes it; where a quote
stands among the paragraphs is told by their spans.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from pearl.evaluate.datasets.base import Example, one_line
from pearl.evaluate.metrics import Scores, compare, compare_spans
from pearl.lang.source import Source, Span

METHODS = ("normal", "cot", "sp-cot", "react", "fsm1", "fsm2", "rebel")
"""The methods that such questions are tried with where none is named."""

_UNTITLED = "–"
_LIKE_A_HEADING = re.compile(r"#{1,6}(?!\S)")

Triple: TypeAlias = tuple[str, str, str]
"""Subject, relation, object."""


class Fact(NamedTuple):
    """Where something that supports an answer stands.

    Args:
        title: the paragraph's.
        number: the sentence's in it, from 0; where whole paragraphs support an
            answer, the paragraph's in its file's own numbers.
    """

    title: str
    number: int


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a document, and where it stands there."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of a document.

    Args:
        title: what it is headed by.
        sentences: in order.
        number: its number in the file it comes from.
    """

    title: str
    sentences: tuple[Sentence, ...]
    number: int


# The hash of a question has this class as it prints itself: another name or
# field would have every stored evaluation asked anew.
@dataclass(frozen=True, slots=True)
class MultiHop:
    """What is known of a question over several paragraphs.

    Args:
        paragraphs: in the document's order.
        facts: those that support the right answer.
        unit: what a fact is: a sentence, or a whole paragraph.
        triples: the facts in short; empty where the data set has none.
        aliases: other forms of the right answer.
    """

    paragraphs: tuple[Paragraph, ...] = ()
    facts: tuple[Fact, ...] = ()
    unit: Literal["sentence", "paragraph"] = "sentence"
    triples: tuple[Triple, ...] = ()
    aliases: tuple[str, ...] = ()


def compose(
    name: str, paragraphs: Iterable[tuple[str, Sequence[str]]]
) -> tuple[Source, tuple[Paragraph, ...]]:
    """Paragraphs as one document.

    White space is folded, so that no sentence ends a paragraph or starts one,
    and a paragraph that begins like a heading has a backslash before it, as
    Markdown has it, which is no part of its sentence. A paragraph without a
    title stands under a dash, and not under the title before it.

    Args:
        name: the document's.
        paragraphs: the title and the sentences of each; one without words
            keeps its number and adds only its heading to the text.

    Returns:
        The document, and its paragraphs with the places of their sentences.
    """
    text = ""
    composed: list[Paragraph] = []
    for number, (title, sentences) in enumerate(paragraphs):
        text += f"# {one_line(title) or _UNTITLED}\n\n"
        placed: list[Sentence] = []
        for sentence in map(one_line, sentences):
            if not text.endswith("\n"):
                text += " " if sentence else ""
            elif _LIKE_A_HEADING.match(sentence):
                text += "\\"
            placed.append(Sentence(sentence, Span(len(text), len(text) + len(sentence))))
            text += sentence
        text += "" if text.endswith("\n") else "\n\n"
        composed.append(Paragraph(one_line(title), tuple(placed), number))
    return Source(name, text), tuple(composed)


def golds(example: Example) -> tuple[str, ...]:
    """Every form of the right answer, the first of which stands in reports."""
    data = example.data
    return (example.gold, *(data.aliases if isinstance(data, MultiHop) else ()))


def best(example: Example, answer: str) -> Scores:
    """The form of the right answer that an answer is nearest to.

    MuSiQue takes the greatest exact match and the greatest F1 over all forms;
    a form that is matched exactly has both.
    """
    data = example.data
    by_paragraph = isinstance(data, MultiHop) and data.unit == "paragraph"
    comparison = compare_spans if by_paragraph else compare
    scores = [comparison(answer, gold) for gold in golds(example)]
    return max(scores, key=lambda score: (score.exact_match, score.f1))


def score(example: Example, answer: str) -> float:
    """1 where an answer is a right one but for case, articles and punctuation; else 0."""
    return best(example, answer).exact_match


def measures(example: Example, answer: str) -> Mapping[str, float]:
    """Exact match and F1 of an answer."""
    nearest = best(example, answer)
    return {"exact_match": nearest.exact_match, "f1": nearest.f1}
