"""What questions over several paragraphs have in common: their document, and their gold.

The document is Markdown: a heading and a paragraph for each, its sentences
with a space between them. A method reads that and quotes it; where a quote
stands among the paragraphs is told by their spans.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from pearl.evaluate.datasets.base import Example
from pearl.lang.source import InputError, Source, Span, read_row, read_source

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


def golds(example: Example) -> tuple[str, ...]:
    """Every form of the right answer, the first of which stands in reports."""
    data = example.data
    return (example.gold, *(data.aliases if isinstance(data, MultiHop) else ()))


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
    found: list[Paragraph] = []
    for number, (title, sentences) in enumerate(paragraphs):
        text += f"# {folded(title) or _UNTITLED}\n\n"
        placed: list[Sentence] = []
        for told in map(folded, sentences):
            if not text.endswith("\n"):
                text += " " if told else ""
            elif _LIKE_A_HEADING.match(told):
                text += "\\"
            placed.append(Sentence(told, Span(len(text), len(text) + len(told))))
            text += told
        text += "" if text.endswith("\n") else "\n\n"
        found.append(Paragraph(folded(title), tuple(placed), number))
    return Source(name, text), tuple(found)


def folded(text: str) -> str:
    """A text with one space where it has white space."""
    return " ".join(text.split())


def read_objects(path: str, what: str, key: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of a file, with its place for messages: a JSON array's, or one a line.

    Args:
        path: the file, or ``-`` for standard input.
        what: the noun used in messages.
        key: where the array may stand in an object.

    Raises:
        InputError: the file cannot be read, or has something else in it.
    """
    text = read_source(path, what).text
    whole = _whole(text)
    if isinstance(whole, dict) and key and key in whole:
        whole = whole[key]
        if not isinstance(whole, list):
            raise InputError(f"{path}: {key} is no list: give a {what}.")
    if isinstance(whole, list):
        for number, row in enumerate(whole, 1):
            if not isinstance(row, dict):
                raise InputError(f"{path}, row {number} is no object: give a {what}.")
            yield f"{path}, row {number}", row
        return
    if whole is None and text.lstrip().startswith("["):
        raise InputError(f"{path} is no whole JSON array: give a {what}, or one object a line.")
    if isinstance(whole, dict) and "\n" in text.strip():
        yield f"{path}, row 1", whole
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield f"{path}:{number}", read_row(line, f"{path}:{number}")


def once(examples: Iterable[tuple[str, Example]]) -> Iterator[Example]:
    """Examples, each under an id of its own.

    Args:
        examples: each with its place.

    Raises:
        InputError: an id comes again.
    """
    seen: dict[str, str] = {}
    for where, example in examples:
        if example.id in seen:
            raise InputError(f"{where} has the id {example.id}, as {seen[example.id]} has.")
        seen[example.id] = where
        yield example


def text_of(row: dict[str, Any], key: str, where: str) -> str:
    """A text of a row, its white space folded.

    Raises:
        InputError: there is none.
    """
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{where} has no {key}: give it as a text.")
    return folded(value)


def id_of(row: dict[str, Any], key: str, where: str) -> str:
    """A row's id.

    Raises:
        InputError: there is none.
    """
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise InputError(f"{where} has no {key}: give each row its own.")
    return str(value)


def gold_of(row: dict[str, Any], where: str) -> str:
    """The right answer; empty where the row has none, as a test set's.

    Raises:
        InputError: it is no text.
    """
    value = row.get("answer", "")
    if not isinstance(value, str):
        raise InputError(f"{where}: answer is to be a text.")
    return folded(value)


def texts_of(value: Any, told: str, where: str) -> tuple[str, ...]:  # noqa: ANN401 - any JSON
    """A list of texts, each with its white space folded.

    Raises:
        InputError: it is none.
    """
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise InputError(f"{where}: {told} is to be a list of texts.")
    return tuple(map(folded, value))


def _whole(text: str) -> Any:  # noqa: ANN401 - any JSON
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
