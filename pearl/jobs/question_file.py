"""Files of questions: checked as a whole before anything is sent, then read again row by row.

Each line is a JSON object with ``id``, ``question``, ``document`` (a path, or
the text itself), and optionally ``options``, ``gold`` and ``plan``; or an article
with its ``questions``, as QuALITY publishes them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property, lru_cache, partial
from itertools import islice
from math import isfinite
from pathlib import Path
from threading import Event
from typing import Any

from pearl.answer import MOST_OPTIONS, check_options, twice_given
from pearl.jobs.progress import processors
from pearl.jobs.workers import Task
from pearl.lang.errors import InputError, refuse
from pearl.lang.rows import read_row, read_rows, refuse_table, row_id
from pearl.lang.source import LONGEST_PATH, Source, check_size, decode
from pearl.lang.text import composed, counted, one_line, shorten
from pearl.lang.values import digest
from pearl.prompts.calls import letter, letter_of
from pearl.retrieval.converters import SEVERAL, read_documents

INLINE = "inline:"
"""The prefix, before the row's number, that stands for the path of a document within a row."""

ROW = (
    "id", "question", "document", "documents", "options", "gold", "plan", "split", "labels",
)  # fmt: skip
"""The keys that a row may have."""

_ARTICLE = ("article", "article_id", "questions", "gold_label", "question_unique_id", "qid")
"""The keys that an article's line, and its questions, may have."""

DOCUMENTS = 16
"""The most documents that are kept in memory for later questions."""

_AT_ONCE = 8
"""The most documents that are read at the same time: a conversion may take 4 GB of memory."""

_QUEUED = 1000
"""The most documents that wait for a thread that reads them."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a document.

    Args:
        id: the id of its answer; unique in its file.
        question: what is asked.
        document: the document's path as the row names it, several paths with " + " between them,
            or ``inline``.
        text: the document itself where the row holds it; else empty.
        options: answers to choose from; empty for none.
        gold: the letter of the right option, or the gold answer where there
            are no options; empty where it is not known.
        plan: a plan to run; empty where one is to be written.
        documents: the paths, where the row names several.
        accepted: further gold answers, where the row gives several.
        split: the part of an evaluation's data that it belongs to; empty for none.
        labels: the kinds that it belongs to, by what they tell apart.
    """

    id: str
    question: str
    document: str
    text: str = ""
    options: tuple[str, ...] = ()
    gold: str = ""
    plan: str = ""
    documents: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    split: str = ""
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    @property
    def golds(self) -> tuple[str, ...]:
        """All gold answers; a single empty text where none is known."""
        return (self.gold, *self.accepted)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the document, if the row does not hold its text."""
        return self.documents or (self.document,)


@dataclass(frozen=True, slots=True)
class QuestionPlace:
    """Where a question is in its file, which may be too large to keep in memory.

    Args:
        id: the question's id.
        position: its number among all questions, from 0.
        offset: bytes before its line.
        hash: of its line, which may change before it is read again.
        document: the document's path, or `INLINE` and the number of its row.
        name: its file and line, for messages.
        at: its number among the questions of its line, from 0.
    """

    id: str
    position: int
    offset: int
    hash: int
    document: str
    name: str
    at: int = 0


@dataclass(frozen=True)
class QuestionTask:
    """A question and its document."""

    question: Question
    document: Source


@dataclass(frozen=True)
class QuestionIndex:
    """A checked file of questions, as the tasks of a job; questions about one document come
    together.

    Args:
        path: the file.
        folder: the folder of the documents.
        places: the place of every question, in order.
        ahead: how many places earlier a document's first question is asked. Its first call warms
            the prefix cache alone, and has returned when the document's other questions come.
        notes: a sentence for each unknown key that is close to a missing one, and for each question
            that has an option twice.
    """

    path: Path
    folder: Path
    places: tuple[QuestionPlace, ...]
    ahead: int = 0
    notes: tuple[str, ...] = ()

    @cached_property
    def by_document(self) -> dict[str, QuestionPlace]:
        """The places by id, in the order to ask them: by document, with first questions earlier."""
        groups: dict[str, list[QuestionPlace]] = {}
        for place in self.places:
            groups.setdefault(place.document, []).append(place)
        ordered: list[tuple[int, QuestionPlace]] = []
        for first, *others in groups.values():
            start = len(ordered)
            ordered.append((start - self.ahead, first))
            ordered += ((start + at, place) for at, place in enumerate(others, 1))
        return {place.id: place for _, place in sorted(ordered, key=lambda pair: pair[0])}

    @property
    def ids(self) -> Sequence[str]:
        """The ids of all questions, in the order to ask them in."""
        return tuple(self.by_document)

    @property
    def files(self) -> Iterator[Path]:
        """The paths of all documents that are files."""
        named = {place.document for place in self.places if not place.document.startswith(INLINE)}
        named |= {file for document in named for file in document.split(SEVERAL)}
        return (self.folder / document for document in named)

    def questions(self, ids: Iterable[str]) -> Iterator[tuple[QuestionPlace, Question]]:
        """Read questions again, one at a time.

        Raises:
            InputError: one has changed since the file was checked, or the file cannot be read.
        """
        try:
            file = self.path.open("rb")
        except OSError as error:
            raise InputError(f"{self.path} can no longer be read ({error.strerror}).") from None
        with file:
            for place in map(self.by_document.__getitem__, ids):
                file.seek(place.offset)
                line = file.readline().strip()
                if hash(line) != place.hash:
                    raise InputError(
                        f"{place.name} has changed since it was checked: run it again."
                    )
                text = line.decode("utf-8-sig")
                name, row = question_rows(read_row(text, place.name), place.name)[place.at]
                yield place, parse_question(row, name)

    def document(self, question: Question) -> Source:
        """The document of a question.

        Raises:
            InputError: it cannot be read.
        """
        if question.text:
            return Source(f"document of {question.id}", composed(question.text))
        return Source(question.document, read_documents(_within(question.paths, self.folder)).text)

    def read(self, ids: Sequence[str]) -> Iterator[Task[QuestionTask]]:
        """Questions with their documents, each read when it is needed.

        Raises:
            InputError: a question or document can no longer be read.
        """
        held: dict[str, Source] = {}
        for place, question in self.questions(ids):
            document = held.pop(place.document, None) or self.document(question)
            # Kept, as the next questions are often about the same document.
            held[place.document] = document
            if len(held) > DOCUMENTS:
                del held[next(iter(held))]
            fields = [question.question, question.options, question.gold, question.plan]
            # An answer in the store holds as long as none of these changes.
            key = digest([*fields, *question.accepted, document.digest])
            payload = QuestionTask(question, document)
            yield Task(place.id, place.position, key, place.document, payload)


def gold_problem(question: Question) -> str:
    """Why a question cannot be scored; empty where it can."""
    things = (("a question", question.question), ('its gold answer as "gold"', question.gold))
    wanted = " and ".join(name for name, value in things if not value)
    return f"cannot be scored: give {wanted}, or leave the row out." if wanted else ""


def read_index(
    path: str,
    folder: str = "",
    ahead: int = 0,
    without: Collection[str] = (),
    problem: Callable[[Question], str] = lambda _: "",
    progress: Callable[[int, int], None] = lambda done, of: None,
    stopped: Event | None = None,
) -> QuestionIndex:
    """Check a file of questions and every document it names.

    Args:
        path: the file; it cannot be standard input.
        folder: the folder of the documents; by default the file's own.
        ahead: as in `QuestionIndex`.
        without: questions to leave out, as `comparable` gives them.
        problem: tells what else is wrong with a question; empty where nothing is.
        progress: called as documents are read, with how many were read, and how many there are.
        stopped: an event that is set when the file is no longer needed.

    Raises:
        CancelledError: ``stopped`` was set.
        InputError: rows, their documents or their plans cannot be used; the first are named, and
            the others counted.
    """
    if path == "-":
        raise InputError(
            "Questions are read more than once, so not from standard input: write them to a file."
        )
    file = Path(path)
    if file.exists() and not (file.is_file() or file.is_dir()):
        raise InputError(
            f"Questions are read more than once, so not from {path}: write them to a file."
        )
    home = Path(folder) if folder else file.parent
    if folder and not home.is_dir():
        raise InputError(f"{folder} is no folder: name the one the documents are in.")
    places: list[QuestionPlace] = []
    wrong: list[InputError] = []
    lines: dict[str, int] = {}
    mistyped: dict[str, str] = {}
    doubled: list[str] = []
    documents: dict[tuple[str, ...], list[str]] = {}
    reasons: dict[str, list[str]] = {}

    def place(
        name: str, row: dict[str, Any], number: int, start: tuple[int, int], at: int
    ) -> QuestionPlace | None:
        question = parse_question(row, name)
        problems: list[str] = []
        if question.id in lines:
            problems.append(f"{name} has the id of line {lines[question.id]}: give each its own.")
        lines.setdefault(question.id, number)
        if not (question.plan or question.question):
            problems.append(f"{name} has neither a question nor a plan: give one.")
        if not question.text:
            documents.setdefault(question.paths, []).append(name)
        if (reason := problem(question)) and problems:
            problems.append(f"{name} ({question.id}): {reason}")
        elif reason:
            why = " ".join((reason, *_close_keys(row).values()))
            reasons.setdefault(why, []).append(f"{name} ({question.id})")
        if problems:
            raise InputError(" ".join(problems))
        if comparable(question.question) in without:
            return None
        if twice_given(question.options):
            doubled.append(f"{name} has an option twice: either counts as the other does.")
        document = f"{INLINE}{number}" if question.text else question.document
        return QuestionPlace(question.id, len(places), *start, document, f"{path}:{number}", at)

    for number, start, line in _lines(file):
        near: dict[str, str] = {}
        try:
            where = f"{path}:{number}"
            for at, (name, row) in enumerate(question_rows(read_row(line, where), where)):
                near = _close_keys(row)
                if entry := place(name, row, number, start, at):
                    places.append(entry)
                for key, hint in near.items():
                    mistyped.setdefault(key, f"{name}: {hint}")
        except InputError as error:
            wrong.append(InputError(" ".join((str(error), *near.values()))))
    wrong += (_of_all(names, reason) for reason, names in reasons.items())
    wrong += _document_problems(home, documents, progress, stopped or Event())
    if wrong:
        # Else a mistyped key would be told only once all of these are mended.
        wrong[:0] = map(InputError, mistyped.values())
    refuse(wrong)
    if not places:
        reason = ", as all of its questions are left out" if lines else ""
        raise InputError(f"{path} holds no question{reason}: give one JSON object a line.")
    return QuestionIndex(file, home, tuple(places), ahead, (*mistyped.values(), *doubled))


async def read_index_beside(
    path: str,
    folder: str,
    ahead: int = 0,
    without: Collection[str] = (),
    problem: Callable[[Question], str] = lambda _: "",
) -> QuestionIndex:
    """`read_index` in a thread, as documents may take minutes to convert; if the call is cancelled,
    no more is read, and conversions end."""
    stopped = Event()
    read = partial(read_index, path, folder, ahead, without, problem, stopped=stopped)
    try:
        return await asyncio.to_thread(read)
    finally:
        stopped.set()


def _of_all(names: Sequence[str], reason: str) -> InputError:
    """The error for all rows with the same problem: the first is named, and the others counted."""
    more = f" and {counted(len(names) - 1, 'more row')}" if len(names) > 1 else ""
    return InputError(f"{names[0]}{more}: {reason}")


def _document_problems(
    folder: Path,
    documents: Mapping[tuple[str, ...], list[str]],
    progress: Callable[[int, int], None],
    stopped: Event,
) -> Iterator[InputError]:
    """Read every document, several at once, as some have to be converted, and yield an error for
    each that cannot be read. ``documents`` has, for the paths of each, the rows that name it."""
    done = 0
    problem, unread = partial(_document_problem, folder, stopped), iter(documents)
    with ThreadPoolExecutor(min(_AT_ONCE, processors())) as pool:
        try:
            # Not all are queued at once, as there may be a million.
            while some := [*islice(unread, _QUEUED)]:
                for paths, reason in zip(some, pool.map(problem, some), strict=True):
                    done += 1
                    progress(done, len(documents))
                    if reason:
                        yield _of_all(documents[paths], reason)
        finally:
            stopped.set()
            pool.shutdown(cancel_futures=True)


def _document_problem(folder: Path, stopped: Event, paths: tuple[str, ...]) -> str:
    """Why a document cannot be read; empty where it can."""
    try:
        within = _within(paths, folder)
    except InputError as error:
        return str(error)
    try:
        read_documents(within, stopped)
    except InputError as error:
        if len(paths) > 1 or os.path.exists(folder / paths[0]):
            return str(error)
        # The row may have meant the text itself: a short text on one line is taken for a path.
        advice = "Name the folder that holds it with --documents"
        return f'{error} {advice}, or give a text itself as {{"text": …}}.'
    return ""


def _close_keys(row: dict[str, Any]) -> dict[str, str]:
    """The unknown keys of a row that are close to known keys which it lacks, each with a sentence
    that says so."""
    # Keys of an article count as known only where the row has one of them.
    known = (*ROW, *_ARTICLE) if row.keys() & {*_ARTICLE} else ROW
    missing = tuple(key for key in known if row.get(key) is None)
    strange = sorted(row.keys() - {*ROW, *_ARTICLE})
    close = {key: _close(key, missing) for key in strange}
    return {key: f"{key} is not read; close: {near}." for key, near in close.items() if near}


@lru_cache(maxsize=256)  # Most rows of a file have the same keys.
def _close(key: str, names: tuple[str, ...]) -> str:
    return next(iter(get_close_matches(key.lower(), names, 1, 0.75)), "")


def question_rows(row: dict[str, Any], name: str) -> list[tuple[str, dict[str, Any]]]:
    """The questions of a line: its own, or those of an article of QuALITY (Pang et al., 2022).

    Args:
        row: the line's JSON object.
        name: its file and line, for messages.

    Returns:
        For each question its place for messages, and its row as `parse_question` takes it.

    Raises:
        InputError: a question of an article has the wrong form.
    """
    article, questions = row.get("article"), row.get("questions")
    if not isinstance(article, str) or not isinstance(questions, list):
        return [(name, row)]
    rows: list[tuple[str, dict[str, Any]]] = []
    for number, item in enumerate(questions, 1):
        where = f"{name}, question {number}"
        if not isinstance(item, dict):
            raise InputError(f"{where} is no object.")
        label = item.get("gold_label")
        if label is not None and (type(label) is not int or not 1 <= label <= MOST_OPTIONS):
            raise InputError(f"{where}: gold_label is to be an option's number, counted from 1.")
        ids = (item.get("question_unique_id"), item.get("qid"), f"{row.get('article_id')}-{number}")
        fields = {
            "id": next(id for id in ids if id is not None),
            "question": item.get("question"),
            "document": {"text": article},
            "options": item.get("options"),
            "gold": None if label is None else letter(label - 1),
        }
        others = {key: value for key, value in item.items() if key not in ROW}
        rows.append((where, others | fields))
    return rows


def comparable(text: str) -> str:
    """A question or an option in the form for comparison, without case, extra spaces and final
    punctuation."""
    return one_line(text).casefold().rstrip("?.! ")


def questions_in(path: str) -> frozenset[str]:
    """The questions of a file, as `comparable` gives them.

    Args:
        path: a file of JSON lines as `question_rows` takes them; only ``question`` is read.

    Raises:
        InputError: the file cannot be read, or holds no question.
    """
    lines = read_rows(path, "file of questions")
    rows = (row for where, line in lines for _, row in question_rows(line, where))
    texts = frozenset(
        comparable(row["question"]) for row in rows if isinstance(row.get("question"), str)
    )
    if not texts:
        raise InputError(f"{path} holds no question: give rows with one.")
    return texts


def _lines(file: Path) -> Iterator[tuple[int, tuple[int, int], str]]:
    """The number of every line that is not blank, its byte offset with its hash, and its text."""
    offset, begun = 0, False
    try:
        with file.open("rb") as opened:
            for number, data in enumerate(opened, 1):
                if data.strip():
                    if not begun:
                        refuse_table(str(file), data)
                    begun = True
                    text = decode(f"{file}:{number}", data, "questions", rows=True).text
                    yield number, (offset, hash(data.strip())), text
                offset += len(data)
    except IsADirectoryError:
        raise InputError(f"{file} is a directory: name a file of questions in it.") from None
    except FileNotFoundError:
        raise InputError(f"{file} does not exist: check the path of the questions.") from None
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}).") from None


def _within(documents: Iterable[str], folder: Path) -> list[str]:
    """The paths of documents, which may not lead out of the folder, as rows are untrusted."""
    paths = []
    for document in documents:
        path = folder / document
        try:
            path.resolve().relative_to(folder.resolve())
        except (ValueError, OSError, RuntimeError):
            raise InputError(
                f"{document} is not in {folder}: name the folder that holds it with --documents."
            ) from None
        if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
            # It is read more than once, and may never end.
            raise InputError(f"{document} is a pipe or a device: name a file.")
        paths.append(str(path))
    return paths


def parse_question(row: dict[str, Any], name: str) -> Question:
    """Read a question from a row of its file.

    Args:
        row: the row's JSON object.
        name: its file and line, for messages.

    Raises:
        InputError: the row cannot be used.
    """
    options = check_options(row.get("options") or [], name)
    for key in ("question", "plan"):
        if row.get(key) is not None and not isinstance(row[key], str):
            raise InputError(f"{name}: {key} is to be a text.")
    check_size(row.get("plan") or "", name)
    document, paths = row.get("document"), row.get("documents") or []
    if not isinstance(paths, list) or not all(isinstance(path, str) and path for path in paths):
        raise InputError(f"{name}: documents is to be a list of paths.")
    if paths and document:
        raise InputError(f"{name} has a document and documents: give one of them.")
    if paths:
        document, inline = SEVERAL.join(paths), False
    elif isinstance(document, dict):
        document, inline = document.get("text"), True
    else:
        inline = isinstance(document, str) and ("\n" in document or len(document) > LONGEST_PATH)
    if inline and isinstance(document, str) and not document.strip():
        raise InputError(f"{name}: the document's text is empty: give one with text in it.")
    if document is None or (isinstance(document, str) and not document.strip()):
        keys = f" Its keys are {shorten(', '.join(row), 200)}." if row else ""
        raise InputError(f"{name} has no document: give a path, or the text itself.{keys}")
    if not isinstance(document, str):
        several = ', and several as "documents"' if isinstance(document, list) else ""
        raise InputError(f"{name}: document is to be a path, or the text itself{several}.")
    gold, *accepted = _right_answers(row.get("gold"), options, name)
    return Question(
        id=row_id(row, name, "question"),
        question=one_line(row.get("question") or ""),
        document="inline" if inline else document,
        text=document if inline else "",
        options=tuple(options),
        gold=gold,
        plan=row.get("plan") or "",
        documents=tuple(paths),
        accepted=tuple(accepted),
        split=_plain(row.get("split")),
        labels=_labels(row.get("labels")),
    )


def _labels(given: Any) -> dict[str, tuple[str, ...]]:  # noqa: ANN401 - any JSON
    """The kinds that a row says its question belongs to, by what they tell apart; what is no text
    and no number says nothing."""
    labels = {}
    for key, value in (given if isinstance(given, dict) else {"label": given}).items():
        values = value if isinstance(value, list) else [value]
        if kinds := tuple(filter(None, map(_plain, values))):
            labels[one_line(key) or "label"] = kinds
    return labels


def _plain(value: Any) -> str:  # noqa: ANN401 - any JSON
    """A text or a number in one line; empty for anything else."""
    is_plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    return one_line(str(value)) if is_plain else ""


def _right_answers(gold: Any, options: Sequence[str], name: str) -> list[str]:  # noqa: ANN401
    """The gold answers of a row: an option's letter, or texts; a single empty text for none."""
    golds = gold if isinstance(gold, list) else [gold]
    # JSON reads a number that is too large as infinity.
    numbers = [type(each) is int or (type(each) is float and isfinite(each)) for each in golds]
    right = [str(each) if number else each for each, number in zip(golds, numbers, strict=True)]
    # An empty cell of a table may come as spaces.
    blank = [each is None or (isinstance(each, str) and not each.strip()) for each in right]
    right = [each for each, no in zip(right, blank, strict=True) if not no] or [""]
    if not all(isinstance(each, str) for each in right):
        raise InputError(
            f"{name}: gold is to be the right option's letter, a text or a number, or a list of "
            "such of which each is right."
        )
    if not (options and right[0]):
        return right
    letters = [letter(at) for at in range(len(options))]
    if len(right) > 1:
        raise InputError(f"{name}: gold has several of the options: give the one that is right.")
    option, plain = right[0].strip().upper(), [one_line(text) for text in options]
    text, meant = one_line(right[0]), comparable(right[0])
    if text not in plain and meant and meant.upper() not in letters:
        alike = {each for each in plain if comparable(each) == meant}
        text = alike.pop() if len(alike) == 1 else text
    if option not in letters and text not in plain:
        raise InputError(
            f"{name}: gold is no option's letter and no option's text: "
            f"{shorten(text).removesuffix('.')}. Give the letter of the right option, A to "
            f"{letters[-1]}, or its text."
        )
    at = letters.index(option) if option in letters else plain.index(text)
    others = (each for each in plain if each != plain[at])
    if option in letters and text != plain[at] and meant in map(comparable, others):
        raise InputError(
            f"{name}: gold {right[0]} is one option's letter and another's text: put the options "
            "in another order, or write them otherwise."
        )
    return [letter_of(options, at)]
