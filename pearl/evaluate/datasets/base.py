"""What a data set is, and what all readers of data sets share.

Every reader names the file and the row in its messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from pearl.lang.errors import InputError, refuse
from pearl.lang.rows import check_utf_8, lines_of, read_row
from pearl.lang.source import Source, read_source
from pearl.lang.text import one_line

NO_DOCUMENT = Source("no document", "-")
"""The document of a question that has none."""


@dataclass(frozen=True, slots=True)
class Example:
    """A question with what is known of its answer.

    Args:
        id: the question's id, unique in its data set.
        question: what is asked.
        document: the document that it is about.
        options: answers to choose from; empty for none.
        gold: the right option's letter, or the gold answer; empty where it
            is not known.
        split: its split of the data set.
        labels: its labels, by kind.
        data: what else a method needs to answer it, such as a world whose
            agents can be asked.
        accepted: further gold answers.
    """

    id: str
    question: str
    document: Source
    options: tuple[str, ...] = ()
    gold: str = ""
    split: str = ""
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    data: Any = None
    accepted: tuple[str, ...] = ()

    @property
    def golds(self) -> tuple[str, ...]:
        """All gold answers; a single empty text where none is known."""
        return (self.gold, *self.accepted)


@dataclass(frozen=True, slots=True)
class Dataset:
    """A public data set.

    Args:
        name: as on the command line.
        title: as in a report.
        read: gives every example of a file, and also takes the folder of its
            documents (empty for the file's own), which few data sets use. Raises `InputError`
            where the file cannot be used.
        score: scores an answer, from 0 to 1; an example without an answer counts as 0.
        where: where users can get the data.
        methods: the default methods; the others are compared with the first.
        splits: the names of its splits, in order.
        measures: gives further measures of an answer, by name.
        libraries: names of the action libraries used by default; empty for Pearl's default.
        demonstrations: the folder in ``plans/`` whose plans are shown by default.
        short: whether its answers are names, dates and the like, so that
            answers in sentences are shortened.
    """

    name: str
    title: str
    read: Callable[[str, str], Iterator[Example]]
    score: Callable[[Example, str], float]
    where: str
    methods: tuple[str, ...]
    splits: tuple[str, ...] = ()
    measures: Callable[[Example, str], Mapping[str, float]] = lambda *_: {}
    libraries: tuple[str, ...] = ()
    demonstrations: str = "demos"
    short: bool = False


Row: TypeAlias = "dict[str, Any] | InputError"
"""An object of a file, or why a row has none."""


def objects_in(path: str, noun: str, key: str = "") -> Iterator[tuple[str, Row]]:
    """Every row of a file, which is a JSON array or has one object per line, with its place for
    messages.

    Args:
        path: the file, or ``-`` for standard input.
        noun: what messages call the file.
        key: the key of the array, if the file may also be an object that contains it.

    Raises:
        InputError: the file cannot be read.
    """
    source = read_source(path, noun, rows=True)
    text = source.text
    try:
        whole = json.loads(text)
        check_utf_8(text, path)
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, dict) and key and key in whole:
        whole = whole[key]
        if not isinstance(whole, list):
            raise InputError(f"{path}: {key} is no list: give a {noun}.")
    if isinstance(whole, list):
        for number, row in enumerate(whole, 1):
            wrong = InputError(f"{path}, row {number} is no object: give a {noun}.")
            yield f"{path}, row {number}", row if isinstance(row, dict) else wrong
        return
    if whole is None and text.lstrip().startswith("["):
        raise InputError(f"{path} is no whole JSON array: give a {noun}, or one object a line.")
    if isinstance(whole, dict) and "\n" in text.strip():
        yield f"{path}, row 1", whole
        return
    for where, line in lines_of(source):
        try:
            yield where, read_row(line, where)
        except InputError as error:
            yield where, error


def with_unique_ids(
    examples: Iterable[tuple[str, Example | InputError]],
) -> Iterator[Example]:
    """Examples with unique ids, given examples or errors, each with its place.

    Raises:
        InputError: after the last example, if there were errors or repeated ids.
    """
    places: dict[str, str] = {}
    wrong: list[InputError] = []
    for where, example in examples:
        if isinstance(example, InputError):
            wrong.append(example)
        elif example.id in places:
            message = f"{where} has the id {example.id}, as {places[example.id]} has."
            wrong.append(InputError(message))
        else:
            places[example.id] = where
            yield example
    refuse(wrong)


def reader(
    noun: str, example: Callable[[dict[str, Any], str], Example | None], key: str = ""
) -> Callable[[str, str], Iterator[Example]]:
    """A reader (`Dataset.read`) of files with an object for each question, as `objects_in` reads.

    Args:
        noun: what messages call the file.
        example: makes an example from a row and its place, or None to leave the row out; an example
            without an id gets the row's number.
        key: as for `objects_in`.
    """

    def placed(path: str) -> Iterator[tuple[str, Example | InputError]]:
        for number, (where, row) in enumerate(objects_in(path, noun, key), 1):
            try:
                made = row if isinstance(row, InputError) else example(row, where)
            except InputError as error:
                made = error
            if isinstance(made, Example) and not made.id:
                made = replace(made, id=str(number))
            if made:
                yield where, made

    return lambda path, folder: with_unique_ids(placed(path))


def text_of(row: dict[str, Any], key: str, where: str) -> str:
    """A text of a row, in one line.

    Raises:
        InputError: the row has no such text.
    """
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{where} has no {key}: give it as a text.")
    return one_line(value)


def id_of(row: dict[str, Any], key: str, where: str) -> str:
    """A row's id.

    Raises:
        InputError: the row has no id.
    """
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise InputError(f"{where} has no {key}: give each row its own.")
    return str(value)


def gold_of(row: dict[str, Any], where: str) -> str:
    """The gold answer; empty where the row has none, as in a test set.

    Raises:
        InputError: it is no text.
    """
    value = row.get("answer", "")
    if not isinstance(value, str):
        raise InputError(f"{where}: answer is to be a text.")
    return one_line(value)


def texts_of(value: Any, name: str, where: str) -> tuple[str, ...]:  # noqa: ANN401 - any JSON
    """A list of texts, each in one line.

    Raises:
        InputError: the value is no list of texts.
    """
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise InputError(f"{where}: {name} is to be a list of texts.")
    return tuple(map(one_line, value))


def label(kind: str, value: Any) -> dict[str, tuple[str, ...]]:  # noqa: ANN401 - any JSON
    """An example's labels: one of this kind, where the row has it."""
    return {kind: (value,)} if isinstance(value, str) and value else {}
