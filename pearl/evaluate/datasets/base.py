"""The one shape that data sets have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pearl.lang.source import Source

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
    """

    id: str
    question: str
    document: Source
    options: tuple[str, ...] = ()
    gold: str = ""
    split: str = ""
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    data: Any = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """A public data set.

    Args:
        name: as on the command line.
        title: as in a report.
        splits: its parts, in order.
        read: every example of a file, given a folder of documents, which is
            empty where they are the file's own. Raises `InputError` where it
            cannot be used.
        score: of an answer, from 0 to 1; an example without an answer has
            none to score, and counts as 0.
        where: where the data come from, for whoever has none.
        methods: which are tried where none is named; the first is what the
            others are compared with.
        measures: more figures on an answer, by name.
        libraries: names of the action libraries that are used where none is named; none for
            those that always are.
        demonstrations: the folder in ``plans/`` whose plans are shown where no other is named.
        short: whether its answers are names, dates and the like; a method that
            answers in sentences has its answer brought to a short one.
    """

    name: str
    title: str
    splits: tuple[str, ...]
    read: Callable[[str, str], Iterator[Example]]
    score: Callable[[Example, str], float]
    where: str
    methods: tuple[str, ...] = ("zero-shot", "cot", "mcq", "pearl")
    measures: Callable[[Example, str], Mapping[str, float]] = lambda *_: {}
    libraries: tuple[str, ...] = ()
    demonstrations: str = "demos"
    short: bool = False
