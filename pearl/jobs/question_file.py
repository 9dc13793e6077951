"""A file of questions: checked as a whole before anything is asked, read again a row at a time.

A row is one JSON object a line: ``id``, ``question``, ``document`` (a path, or
the text itself), and optionally ``options``, ``gold`` and ``plan``; or an article
with its ``questions``, as QuALITY publishes them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, cached_property, lru_cache, partial
from math import isfinite
from pathlib import Path
from typing import Any

from pearl.answer import MOST_OPTIONS, check_options, twice_given
from pearl.jobs.workers import Task
from pearl.lang.errors import InputError, refuse
from pearl.lang.rows import read_row, read_rows, refuse_table, row_id
from pearl.lang.source import LONGEST_PATH, Source, decode
from pearl.lang.text import composed, one_line, shorten
from pearl.lang.values import digest
from pearl.prompts.calls import letter, letter_of
from pearl.retrieval.converters import SEVERAL, read_documents

INLINE = "inline:"
"""What a document that a row holds is filed under, with the row's number."""

ROW = ("id", "question", "document", "documents", "options", "gold", "plan")
"""The keys that are read of a row."""

_ARTICLE = ("article", "article_id", "questions", "gold_label", "question_unique_id", "qid")
"""The keys that are read of an article's line, and of its questions."""

DOCUMENTS = 16
"""Documents held in memory beside those that are being read."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a document.

    Args:
        id: what its answer is filed under; unique in its file.
        question: what is asked.
        document: where the document is: a path as the row names it, several with " + " between
            them, or ``inline``.
        text: the document itself where the row holds it; else empty.
        options: answers to choose from, or none.
        gold: the letter of the right option, or the right answer where there
            are no options; empty where it is not known.
        plan: a plan to run; empty where one is to be written.
        documents: the paths, where the row names several.
        accepted: right answers beside the gold one, where the row gives several.
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

    @property
    def golds(self) -> tuple[str, ...]:
        """All right answers; an empty one where none is known."""
        return (self.gold, *self.accepted)

    @property
    def paths(self) -> tuple[str, ...]:
        """The documents' paths, where the row does not hold the text."""
        return self.documents or (self.document,)


@dataclass(frozen=True, slots=True)
class QuestionPlace:
    """Where a question stands in its file; the file is too large to keep.

    Args:
        id: the question's.
        position: counted from 0.
        offset: bytes before its line.
        document: what its document is filed under: the path, or its row.
        name: its file and line, for messages.
        at: its place among the questions of its line.
    """

    id: str
    position: int
    offset: int
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
    """A file of questions, checked: as tasks, those of one document together.

    Args:
        path: the file.
        folder: where documents are.
        places: every question's, in order.
        ahead: how many places before its own a document's first question stands. A document's
            first call goes alone; set out early, it has returned when the others come.
        notes: a sentence for each key that is read nowhere and is close to one that a row lacks.
    """

    path: Path
    folder: Path
    places: tuple[QuestionPlace, ...]
    ahead: int = 0
    notes: tuple[str, ...] = ()

    @cached_property
    def by_document(self) -> dict[str, QuestionPlace]:
        """The places by id, those of one document together, documents as they are first named."""
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
        """Every question's, in the order to ask them in."""
        return tuple(self.by_document)

    @property
    def files(self) -> Iterator[Path]:
        """Every document that is a file."""
        named = {place.document for place in self.places if not place.document.startswith(INLINE)}
        named |= {file for document in named for file in document.split(SEVERAL)}
        return (self.folder / document for document in named)

    def questions(self, ids: Iterable[str]) -> Iterator[tuple[QuestionPlace, Question]]:
        """Read questions again, one at a time."""
        with self.path.open("rb") as file:
            for place in map(self.by_document.__getitem__, ids):
                file.seek(place.offset)
                line = file.readline().decode("utf-8-sig")
                name, row = question_rows(read_row(line, place.name), place.name)[place.at]
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
        """Questions with their documents, read when they are drawn.

        Raises:
            InputError: one cannot be read any more.
        """
        held: dict[str, Source] = {}
        for place, question in self.questions(ids):
            document = held.pop(place.document, None) or self.document(question)
            # The last few stay, as questions of one document go together.
            held[place.document] = document
            if len(held) > DOCUMENTS:
                del held[next(iter(held))]
            fields = [question.question, question.options, question.gold, question.plan]
            # Where what is asked is the same, the row of an earlier go still holds.
            key = digest([*fields, *question.accepted, document.digest])
            payload = QuestionTask(question, document)
            yield Task(place.id, place.position, key, place.document, payload)


def gold_problem(question: Question) -> str:
    """Why a question cannot be scored; empty where it can."""
    things = (("a question", question.question), ('its gold answer as "gold"', question.gold))
    wanted = " and ".join(name for name, value in things if not value)
    return f"it cannot be scored: give it {wanted}." if wanted else ""


def read_index(
    path: str,
    folder: str = "",
    ahead: int = 0,
    without: Collection[str] = (),
    problem: Callable[[Question], str] = lambda _: "",
) -> QuestionIndex:
    """Check a file of questions and every document it names.

    Args:
        path: the file; standard input is none.
        folder: where documents are; by default where the file is.
        ahead: as `QuestionIndex` takes it.
        without: questions that are passed over, as `comparable` has them.
        problem: what else is wrong with a question; empty where nothing is.

    Raises:
        InputError: rows, their documents or their plans cannot be used; the first are named, the
            others counted.
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
    notes: dict[str, str] = {}

    # Many questions are about one document.
    document_problem = cache(partial(_document_problem, home))

    def place(
        name: str, row: dict[str, Any], number: int, offset: int, at: int
    ) -> QuestionPlace | None:
        question = parse_question(row, name)
        told: list[str] = []
        if question.id in lines:
            told.append(f"{name} has the id of line {lines[question.id]}: give each its own.")
        lines.setdefault(question.id, number)
        if not (question.plan or question.question):
            told.append(f"{name} has neither a question nor a plan: give one.")
        if not question.text and (reason := document_problem(question.paths)):
            told.append(f"{name}: {reason}")
        if reason := problem(question):
            told.append(f"{name} ({question.id}): {reason}")
        if told:
            raise InputError(" ".join(told))
        if comparable(question.question) in without:
            return None
        if twice_given(question.options):
            notes.setdefault(name, f"{name} has an option twice: either counts as the other does.")
        document = f"{INLINE}{number}" if question.text else question.document
        return QuestionPlace(question.id, len(places), offset, document, f"{path}:{number}", at)

    for number, offset, line in _lines(file):
        near: dict[str, str] = {}
        try:
            where = f"{path}:{number}"
            for at, (name, row) in enumerate(question_rows(read_row(line, where), where)):
                near = _close_keys(row)
                if entry := place(name, row, number, offset, at):
                    places.append(entry)
                for key in near:
                    notes.setdefault(key, f"{name}: {key} is not read; close: {near[key]}.")
        except InputError as error:
            hints = (f"{key} is not read; close: {close}." for key, close in near.items())
            wrong.append(InputError(" ".join((str(error), *hints))))
    refuse(wrong)
    if not places:
        reason = ", as all of its questions are left out" if lines else ""
        raise InputError(f"{path} holds no question{reason}: give one JSON object a line.")
    return QuestionIndex(file, home, tuple(places), ahead, tuple(notes.values()))


def _document_problem(folder: Path, paths: tuple[str, ...]) -> str:
    """Why a document cannot be read; empty where it can."""
    try:
        within = _within(paths, folder)
    except InputError as error:
        return str(error)
    try:
        read_documents(within)
    except InputError as error:
        if len(paths) > 1 or os.path.exists(folder / paths[0]):
            return str(error)
        # A short text on one line is taken for a path.
        folder_said = "Name the folder that holds it with --documents"
        return f'{error} {folder_said}, or give a text itself as {{"text": …}}.'
    return ""


def _close_keys(row: dict[str, Any]) -> dict[str, str]:
    """The keys of a row that are not read, each with the key close to it that the row lacks."""
    # The keys of an article are meant where one of them is there.
    known = (*ROW, *_ARTICLE) if row.keys() & {*_ARTICLE} else ROW
    missing = tuple(key for key in known if row.get(key) is None)
    strange = sorted(row.keys() - {*ROW, *_ARTICLE})
    return {key: close for key in strange if (close := _close(key, missing))}


@lru_cache(maxsize=256)  # The rows of a file have the same.
def _close(key: str, names: tuple[str, ...]) -> str:
    return next(iter(get_close_matches(key.lower(), names, 1, 0.75)), "")


def question_rows(row: dict[str, Any], name: str) -> list[tuple[str, dict[str, Any]]]:
    """The questions of a line: its own, or those of an article of QuALITY (Pang et al., 2022).

    Args:
        row: its JSON object.
        name: its file and line, for messages.

    Returns:
        For each question its place for messages, and its row as `parse_question` takes it.

    Raises:
        InputError: it holds a question that is none.
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


def comparable(question: str) -> str:
    """A question as it is compared: case, spaces and the last mark do not count."""
    return one_line(question).casefold().rstrip("?.! ")


def questions_in(path: str) -> frozenset[str]:
    """The questions of a file, as `comparable` has them.

    Args:
        path: JSON lines as `question_rows` takes them; nothing but ``question`` is read.

    Raises:
        InputError: it cannot be read, or holds none.
    """
    lines = read_rows(path, "file of questions")
    rows = (row for where, line in lines for _, row in question_rows(line, where))
    texts = frozenset(
        comparable(row["question"]) for row in rows if isinstance(row.get("question"), str)
    )
    if not texts:
        raise InputError(f"{path} holds no question: give rows with one.")
    return texts


def _lines(file: Path) -> Iterator[tuple[int, int, str]]:
    """Line number, offset and text of every line that holds something."""
    offset, begun = 0, False
    try:
        with file.open("rb") as opened:
            for number, data in enumerate(opened, 1):
                if data.strip():
                    if not begun:
                        refuse_table(str(file), data)
                    begun = True
                    text = decode(f"{file}:{number}", data, "questions", rows=True).text
                    yield number, offset, text
                offset += len(data)
    except IsADirectoryError:
        raise InputError(f"{file} is a directory: name a file of questions in it.") from None
    except FileNotFoundError:
        raise InputError(f"{file} does not exist: check the path of the questions.") from None
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}).") from None


def _within(documents: Iterable[str], folder: Path) -> list[str]:
    """Documents' paths, which may not lead out of the folder: who wrote the rows is not asked."""
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
        row: its JSON object.
        name: its file and line, for messages.

    Raises:
        InputError: it cannot be used.
    """
    options = check_options(row.get("options") or [], name)
    for key in ("question", "plan"):
        if row.get(key) is not None and not isinstance(row[key], str):
            raise InputError(f"{name}: {key} is to be a text.")
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
        raise InputError(f"{name} has no document: give a path, or the text itself.")
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
    )


def _right_answers(gold: Any, options: Sequence[str], name: str) -> list[str]:  # noqa: ANN401
    """What a row says is right: an option's letter, or texts of which each is; or an empty one."""
    given = gold if isinstance(gold, list) else [gold]
    # A number that is too large to hold is infinite.
    numbers = [type(each) is int or (type(each) is float and isfinite(each)) for each in given]
    right = [str(each) if number else each for each, number in zip(given, numbers, strict=True)]
    right = [each for each in right if each not in (None, "")] or [""]
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
    text = one_line(right[0])
    if option in letters and text in plain and plain[letters.index(option)] != text:
        raise InputError(
            f"{name}: gold {right[0]} is one option's letter and another's text: put the options "
            "in another order, or write them otherwise."
        )
    if option not in letters and text not in plain:
        raise InputError(
            f"{name}: gold is no option's letter and no option's text: {shorten(text)}. Give the "
            f"letter of the right option, A to {letters[-1]}, or its text."
        )
    at = letters.index(option) if option in letters else plain.index(text)
    return [letter_of(options, at)]
