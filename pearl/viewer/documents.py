"""The document of a run, read again: a store holds its name and its hash, not its text.

Quotes in their places: every one that a run's steps gave, and the document cut at them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from pearl.evaluate.datasets import DATASETS
from pearl.jobs.questions import parse_question
from pearl.lang.ast import Plan
from pearl.lang.source import InputError, Source, Span, read_source
from pearl.lang.values import Value
from pearl.run.evidence import Quote, evidence
from pearl.viewer.text import lines, shown

_TOLD = re.compile(r"(.*) \((\d+) characters, sha256 ([0-9a-f]{64})\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Named:
    """A document as a journal names it.

    Args:
        name: a path as it was given, or a title.
        size: characters; None where the journal does not say.
        digest: the SHA-256 of its text; empty where the journal does not say.
    """

    name: str
    size: int | None = None
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """What came of looking for a document.

    Args:
        named: what was looked for; None where the run has no document.
        text: the document, the very one that was read; None where it was not found.
        trouble: why it is not shown, in whole sentences; empty where it is.
    """

    named: Named | None
    text: Source | None = None
    trouble: str = ""


def named_document(head: Mapping[str, Any]) -> Named | None:
    """The document that a journal's head names, or None."""
    told = head.get("document")
    if not isinstance(told, str):
        return None
    found = _TOLD.fullmatch(told)
    return Named(found[1], int(found[2]), found[3]) if found else Named(told)


def find_document(
    named: Named | None, head: Mapping[str, Any], item: str = "", folder: str = ""
) -> Found:
    """Read a run's document again, and make sure that it is the one that was read.

    Args:
        named: what the journal says of it.
        head: what the run says of itself: where its questions and documents are.
        item: the id of the question in a job.
        folder: where else documents are; empty for nowhere.
    """
    if named is None:
        return Found(None)
    if not named.digest:
        return Found(named, None, "The journal does not say which text it was.")
    changed = ""
    for path in _paths(named, head, folder):
        text = _read(path, named)
        if text is not None and text.digest == named.digest:
            return Found(named, Source(named.name, text.text))
        changed = changed or (str(path) if _is_file(path) else "")
    inside = _in_questions(named, head, item) if item else None
    if inside is not None:
        return Found(named, inside)
    return Found(named, None, _trouble(named, changed))


def _trouble(named: Named, changed: str) -> str:
    way = "name the folder that it is in with --documents"
    if changed:
        return (
            f"{changed} is no longer the text that this run read: its hash differs. To see the "
            f"quotes in their places, bring back the text of then, or {way}."
        )
    return f"{named.name} is no longer where it was: {way} to see the quotes in their places."


def _paths(named: Named, head: Mapping[str, Any], folder: str) -> Iterator[Path]:
    """Where it may be: as it was given, where the job's documents were, and in the folder."""
    homes = [folder] if folder else []
    documents, questions = head.get("documents"), head.get("questions")
    if isinstance(documents, str):
        homes.append(documents)
    if isinstance(questions, str):
        homes.append(str(Path(questions).parent))
    names = dict.fromkeys((named.name, re.split(r"[/\\]", named.name)[-1]))
    seen = [Path(home) / name for home in homes for name in names]
    yield from dict.fromkeys((*seen, Path(named.name)))


def _read(path: Path, named: Named) -> Source | None:
    """A file's text, where it can be the document at all: a store may name anything."""
    try:
        # Four bytes hold any character, and three more the mark at the beginning.
        if not _is_file(path) or path.stat().st_size > 4 * (named.size or 0) + 3:
            return None
        return read_source(str(path), "document")
    except (InputError, OSError, ValueError):
        return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        # A title may be longer than a path can be.
        return False


def _in_questions(named: Named, head: Mapping[str, Any], item: str) -> Source | None:
    """A document that stands in the file of questions or in the data set itself."""
    path = head.get("questions")
    if not isinstance(path, str) or not _is_file(Path(path)):
        return None
    title = str((head.get("evaluation") or {}).get("title", ""))
    for dataset in DATASETS:
        if title.startswith(dataset.title):
            return _first(named, _examples(path, dataset.read))
    return _first(named, _asked(path, item))


def _first(named: Named, found: Iterator[Source]) -> Source | None:
    sized = (one for one in found if len(one.text) == named.size)
    return next((one for one in sized if one.digest == named.digest), None)


def _examples(path: str, read: Any) -> Iterator[Source]:  # noqa: ANN401 - a data set's reader
    last = None
    try:
        for example in read(path):
            if example.document is not last:
                last = example.document
                yield last
    except InputError:
        return


def _asked(path: str, item: str) -> Iterator[Source]:
    with Path(path).open("rb") as lines:
        for line in lines:
            try:
                question = parse_question(line.decode("utf-8-sig"), path)
            except (InputError, ValueError):
                continue
            if question.id == item and question.text:
                yield Source(f"document of {item}", question.text)


@dataclass(frozen=True, slots=True)
class Passage:
    """A quote.

    Args:
        number: counted from 1; the answer's own come first.
        text: the passage, on one line.
        span: where it stands; None where the document does not have it.
        line: of the document, counted from 1; None likewise.
        steps: the steps whose outputs quote it.
        answers: whether the answer rests on it.
    """

    number: int
    text: str
    span: Span | None
    line: int | None
    steps: tuple[str, ...]
    answers: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the document.

    Args:
        text: its characters.
        starts: the numbers of the quotes that begin with it.
        kind: ``final`` where the answer rests on it, ``quoted`` where a step quotes it, else empty.
    """

    text: str
    starts: tuple[int, ...] = ()
    kind: str = ""


def passages(
    plan: Plan, values: Mapping[str, Value], ends: Sequence[str], document: Source | None
) -> list[Passage]:
    """Every quote of a run, those behind its answer first.

    Args:
        plan: the plan that ran.
        values: what its steps came to.
        ends: the steps that make up the answer; none where there is no answer.
        document: what they quote; None where it is not at hand, and then no
            quote has a place.
    """
    text = document or Source("", "")
    final = evidence(plan, values, ends, text)
    alone = Plan()
    every = [(one, True) for one in final]
    for name, value in values.items():
        every += ((one, False) for one in evidence(alone, {name: value}, [name], text))
    found: dict[tuple[str, Span | None], tuple[Quote, bool, list[str]]] = {}
    for quote, answers in every:
        known = found.setdefault((quote.text, quote.span), (quote, answers, []))
        if quote.step not in known[2]:
            known[2].append(quote.step)
    return [
        Passage(
            number,
            shown(" ".join(quote.text.split())),
            quote.span,
            text.position(quote.span.start)[0] if quote.span else None,
            tuple(steps),
            answers,
        )
        for number, (quote, answers, steps) in enumerate(found.values(), 1)
    ]


def cut(document: Source, found: Iterable[Passage]) -> list[Piece]:
    """The document in pieces, cut where quotes begin and end.

    Args:
        document: the text.
        found: its quotes; those without a place are left out.
    """
    placed = [(one, one.span) for one in found if one.span is not None]
    ends = {0, len(document.text)}
    for _, span in placed:
        ends |= {span.start, span.end}
    places = sorted(ends)
    pieces: list[Piece] = []
    for start, end in pairwise(places):
        over = [one for one, span in placed if span.start <= start and end <= span.end]
        starts = tuple(one.number for one, span in placed if span.start == start)
        kind = "final" if any(one.answers for one in over) else "quoted" if over else ""
        pieces.append(Piece(lines(document.text[start:end]), starts, kind))
    return pieces
