"""Finds the document of a run again, and the quotes in it.

A store holds only a document's name and hash, not its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from pearl.evaluate.datasets import DATASETS
from pearl.evaluate.datasets.reading import OWN
from pearl.jobs.question_file import Question, parse_question, question_rows
from pearl.lang.ast import Plan
from pearl.lang.errors import InputError
from pearl.lang.rows import read_row
from pearl.lang.source import START, Source, Span
from pearl.lang.text import passage_line
from pearl.retrieval.converters import LARGEST, SEVERAL, files_of, read_documents
from pearl.runtime.evidence import Quote, evidence
from pearl.viewer.journal_tree import FrameNode

_NAMED = re.compile(r"(.*) \((\d+) characters, sha256 ([0-9a-f]{64})\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class DocumentName:
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
class DocumentLookup:
    """The result of looking for a document.

    Args:
        named: the name that was looked for; None where the run has no document.
        text: the document, with the same text as in the run; None where it was not found.
        trouble: why it is not shown, in whole sentences; empty where it is.
    """

    named: DocumentName | None
    text: Source | None = None
    trouble: str = ""


def read_name(text: str) -> DocumentName:
    """A document's name, with its size and hash where a journal's head gives them."""
    match = _NAMED.fullmatch(text)
    return DocumentName(match[1], int(match[2]), match[3]) if match else DocumentName(text)


def find_document(
    head: Mapping[str, Any], run: Mapping[str, Any], item: str, folder: str
) -> DocumentLookup:
    """Read a run's document again, and check by its hash that it is the same text.

    Args:
        head: the head of the journal.
        run: the head of the run, which says where its questions and documents are.
        item: the id of the question in a job; empty for a run that is no job.
        folder: another folder of documents; empty for none.
    """
    text = head.get("document")
    if not isinstance(text, str):
        return DocumentLookup(None)
    named = read_name(text)
    if not named.digest:
        return DocumentLookup(named, None, "The journal does not say which text it was.")
    changed = ""
    for paths in _paths(named, run, folder):
        # A store may name any file, so one that is too large to be the document is not read. A
        # character takes up to four bytes, and a byte order mark three; a PDF may take more.
        source = read_limited(paths, named.name, max(LARGEST, 4 * (named.size or 0) + 3))
        if source is not None and source.digest == named.digest:
            return DocumentLookup(named, source)
        changed = changed or (str(paths[0]) if all(map(_is_there, paths)) else "")
    questions = run.get("questions")
    if item and isinstance(questions, str) and _is_there(Path(questions)):
        for source in documents_in(Path(questions), run, item, named):
            return DocumentLookup(named, source)
    remedy = "name the folder that it is in with --documents"
    trouble = f"{named.name} is no longer where it was: {remedy} to see the quotes in their places."
    if changed:
        trouble = (
            f"{changed} is no longer the text that this run read: its hash differs. To see the "
            f"quotes in their places, bring back the text of then, or {remedy}."
        )
    return DocumentLookup(named, None, trouble)


def _paths(named: DocumentName, run: Mapping[str, Any], folder: str) -> Iterator[tuple[Path, ...]]:
    """The paths at which a document may be: in the folder, where the job's documents were, and the
    path as it was given."""
    homes = [Path(folder)] if folder else []
    documents, questions = run.get("documents"), run.get("questions")
    if isinstance(documents, str):
        homes.append(Path(documents))
    if isinstance(questions, str):
        homes.append(Path(questions).parent)
    return paths_of(named.name, homes)


def paths_of(name: str, homes: Iterable[Path]) -> Iterator[tuple[Path, ...]]:
    """The paths at which a document, or each of several in one name, may be: below folders, or in
    them by the last part of the name, and the path as it was given."""
    candidates: list[tuple[Path, ...]] = []
    for names in ([name], name.split(SEVERAL)):
        bare = [re.split(r"[/\\]", each)[-1] for each in names]
        for home in homes:
            candidates += (tuple(home / each for each in some) for some in (names, bare))
        candidates.append(tuple(map(Path, names)))
    yield from dict.fromkeys(candidates)


def _is_there(path: Path) -> bool:
    try:
        return path.is_file() or path.is_dir()
    except (OSError, ValueError):
        # A title may be longer than a path can be.
        return False


def read_limited(paths: Sequence[Path], name: str, most: int) -> Source | None:
    """The text of files; None where one is missing, no text, or larger than ``most`` bytes.

    Args:
        paths: the files, or folders of them.
        name: the name of the document.
        most: the most bytes of a file.
    """
    with suppress(InputError, OSError, ValueError):
        files = [Path(file) for path in paths for file in files_of(str(path))]
        if all(file.is_file() and file.stat().st_size <= most for file in files):
            return Source(name, read_documents([*map(str, paths)]).text)
    return None


def documents_in(
    file: Path, run: Mapping[str, Any], item: str, named: DocumentName
) -> Iterator[Source]:
    """A document whose text is in a file of questions, or in a data set.

    Args:
        file: the questions or the data set.
        run: the head of the run; an evaluation names its data set.
        item: the question's id; in an evaluation, the method and a slash before it.
        named: the name of the document.
    """
    # Splits follow the data set's title, after a comma.
    title = f"{(run.get('evaluation') or {}).get('title', '')}, "
    dataset = next((each for each in DATASETS if title.startswith(f"{each.title}, ")), None)
    texts: Iterable[str]
    if dataset is None or dataset is OWN:
        asked = item if dataset is None else item.partition("/")[2]
        texts = (question.text for question in questions_in(file, asked) if question.text)
    else:
        examples = dataset.read(str(file), "")
        texts = (each.text for each, _ in groupby(example.document for example in examples))
    with suppress(InputError):
        for text in texts:
            source = Source(named.name, text)
            if named.size in (None, len(text)) and source.digest == named.digest:
                yield source


def questions_in(file: Path, item: str) -> Iterator[Question]:
    """The questions with this id that a file has now; none where it cannot be read."""
    try:
        lines = file.read_bytes().split(b"\n")
    except OSError:
        return
    for line in lines:
        with suppress(InputError, ValueError):
            rows = question_rows(read_row(line.decode("utf-8-sig"), file.name), file.name)
            questions = [parse_question(row, name) for name, row in rows]
            yield from (question for question in questions if question.id == item)


@dataclass(frozen=True, slots=True)
class QuotedPassage:
    """A quote.

    Args:
        number: counted from 1; quotes behind the answer come first.
        text: the passage, on one line.
        span: its span in the document; None where the document does not have it.
        place: its page or line, and which of several documents; empty where it has no span.
        steps: the steps whose outputs quote it.
        answers: whether the answer rests on it.
        speaker: in a transcript, who speaks and when.
    """

    number: int
    text: str
    span: Span | None
    place: str
    steps: tuple[str, ...]
    answers: bool
    speaker: str


@dataclass(frozen=True, slots=True)
class DocumentPiece:
    """A stretch of the document.

    Args:
        text: its characters, without the mark that stands before the name of a document.
        starts: the numbers of the quotes that begin with it.
        kind: ``final`` where the answer rests on it, ``quoted`` where a step quotes it, else empty.
        page: the page that it begins on, counted from 1.
    """

    text: str
    starts: tuple[int, ...] = ()
    kind: str = ""
    page: int = 1


def is_evidenced(passages: Iterable[QuotedPassage], document: Source | None) -> bool:
    """Whether the answer rests on a passage of the document, or on any quote where the document is
    not available."""
    return any(quote.answers and (document is None or quote.span) for quote in passages)


def find_passages(
    frame: FrameNode, document: Source | None, first: int = 1, fallback: Sequence[Quote] = ()
) -> list[QuotedPassage]:
    """Every quote of a run, those behind its answer first.

    Args:
        frame: the run, or one try of a refinement.
        document: what its outputs quote; None where it is not available, and then no quote has a
            place.
        first: the number of the first quote.
        fallback: the evidence for an answer that quotes nothing.
    """
    text, plan, values = document or Source("", ""), frame.plan, frame.values
    every = [(quote, True) for quote in evidence(plan, values, frame.ends, text) or fallback]
    for name in [name for name in values if " " not in name]:
        every += ((quote, False) for quote in evidence(Plan(), values, [name], text, plan))
    merged: dict[tuple[str, Span | None], tuple[Quote, bool, list[str]]] = {}
    for quote, answers in every:
        _, _, steps = merged.setdefault((quote.text, quote.span), (quote, answers, []))
        if quote.step not in steps:
            steps.append(quote.step)
    return [
        QuotedPassage(
            number,
            passage_line(quote.text),
            quote.span,
            str(quote.place or ""),
            tuple(steps),
            answers,
            quote.speaker,
        )
        for number, (quote, answers, steps) in enumerate(merged.values(), first)
    ]


def cut(document: Source, quotes: Iterable[QuotedPassage]) -> list[DocumentPiece]:
    """The document in pieces, cut where quotes begin and end.

    Args:
        document: the text.
        quotes: its quotes; those without a place are left out.
    """
    placed = [(quote, quote.span) for quote in quotes if quote.span is not None]
    ends = {0, len(document.text)}.union(*((span.start, span.end) for _, span in placed))
    ends |= {match.start() for match in re.finditer(START, document.text)}
    pieces: list[DocumentPiece] = []
    for start, end in pairwise(sorted(ends)):
        over = [quote for quote, span in placed if span.start <= start and end <= span.end]
        starts = tuple(quote.number for quote, span in placed if span.start == start)
        kind = "final" if any(quote.answers for quote in over) else "quoted" if over else ""
        text = document.text[start:end].removeprefix(START)
        pieces.append(DocumentPiece(text, starts, kind, document.cited(start).page or 1))
    return pieces
