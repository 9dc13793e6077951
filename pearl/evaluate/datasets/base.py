"""What a data set is, and what the readers of their files have in common.

Every reader names the file and the row in its messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from pearl.lang.errors import InputError, refuse
from pearl.lang.rows import check_utf_8, read_row
from pearl.lang.source import Source, read_source
from pearl.lang.text import one_line

NO_DOCUMENT = Source("no document", "-")
"""What a question is asked of where nothing is read to answer it."""


@dataclass(frozen=True, slots=True)
class Example:
    """A question with what is known of its answer.

    Args:
        id: unique in its data set.
        question: what is asked.
        document: what it is asked of.
        options: answers to choose from, or none.
        gold: the right option's letter, or the right answer; empty where it
            is not known.
        split: the part of the data set it belongs to.
        labels: kinds it belongs to, by what they tell apart.
        data: what else a method needs to answer it, as a world whose agents
            can be asked.
        accepted: right answers beside the gold one.
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
        """All right answers; an empty one where none is known."""
        return (self.gold, *self.accepted)


@dataclass(frozen=True, slots=True)
class Dataset:
    """A public data set.

    Args:
        name: as on the command line.
        title: as in a report.
        read: every example of a file, given a folder of documents, which is
            empty where they are the file's own, and which most files have no use for. Raises
            `InputError` where the file cannot be used.
        score: of an answer, from 0 to 1; an example without an answer has
            none to score, and counts as 0.
        where: where the data come from, for whoever has none.
        methods: which are tried where none is named; the first is what the
            others are compared with.
        splits: its parts, in order.
        measures: more figures on an answer, by name.
        libraries: names of the action libraries that are used where none is named; none for
            those that always are.
        demonstrations: the folder in ``plans/`` whose plans are shown where no other is named.
        short: whether its answers are names, dates and the like; a method that
            answers in sentences has its answer brought to a short one.
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
"""An object of a file, or why one of its rows is none."""


def objects_in(path: str, noun: str, key: str = "") -> Iterator[tuple[str, Row]]:
    """Every row of a file, with its place for messages: a JSON array's, or one a line.

    Args:
        path: the file, or ``-`` for standard input.
        noun: what messages call it.
        key: where the array may stand in an object.

    Raises:
        InputError: the file cannot be read.
    """
    text = read_source(path, noun, rows=True).text
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
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield f"{path}:{number}", read_row(line, f"{path}:{number}")
            except InputError as error:
                yield f"{path}:{number}", error


def with_unique_ids(
    examples: Iterable[tuple[str, Example | InputError]],
) -> Iterator[Example]:
    """Examples, each under an id of its own, given each with its place, or with why a row is none.

    Raises:
        InputError: past the last example, rows that are none, or whose id comes again.
    """
    places: dict[str, str] = {}
    wrong: list[InputError] = []
    for where, example in examples:
        if isinstance(example, InputError):
            wrong.append(example)
        elif example.id in places:
            told = f"{where} has the id {example.id}, as {places[example.id]} has."
            wrong.append(InputError(told))
        else:
            places[example.id] = where
            yield example
    refuse(wrong)


def reader(
    noun: str, example: Callable[[dict[str, Any], str], Example | None], key: str = ""
) -> Callable[[str, str], Iterator[Example]]:
    """How a data set is read whose file has an object a question: a JSON array, or one a line.

    Args:
        noun: what messages call it.
        example: makes an example of a row and its place, which gets the row's number for an id
            where it has none; None leaves the row out.
        key: where the array may stand in an object.
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
        InputError: there is none.
    """
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{where} has no {key}: give it as a text.")
    return one_line(value)


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
    return one_line(value)


def texts_of(value: Any, name: str, where: str) -> tuple[str, ...]:  # noqa: ANN401 - any JSON
    """A list of texts, each in one line.

    Raises:
        InputError: it is none.
    """
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise InputError(f"{where}: {name} is to be a list of texts.")
    return tuple(map(one_line, value))


def label(kind: str, value: Any) -> dict[str, tuple[str, ...]]:  # noqa: ANN401 - any JSON
    """An example's only label, where a row has it."""
    return {kind: (value,)} if isinstance(value, str) and value else {}
