"""A file of questions: checked as a whole before anything is asked, read again a row at a time.

A row is one JSON object a line: ``id``, ``question``, ``document`` (a path, or
the text itself), and optionally ``options``, ``gold`` and ``plan``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pearl.answer import check_options
from pearl.lang.source import InputError, Source, read_row, read_source
from pearl.prompts.calls import letter

LONGEST_PATH = 300
"""Characters above which a document is taken to be the text itself."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a document.

    Args:
        id: what its answer is filed under; unique in its file.
        question: what is asked.
        document: where the document is: a path as the row names it, or
            ``inline``.
        text: the document itself where the row holds it; else empty.
        options: answers to choose from, or none.
        gold: the letter of the right option, or the right answer where there
            are no options; empty where it is not known.
        plan: a plan to run; empty where one is to be written.
    """

    id: str
    question: str
    document: str
    text: str = ""
    options: tuple[str, ...] = ()
    gold: str = ""
    plan: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a question stands in its file; the file is too large to keep.

    Args:
        id: the question's.
        position: counted from 0.
        offset: bytes before its line.
        document: what its document is filed under: the path, or its row.
    """

    id: str
    position: int
    offset: int
    document: str


@dataclass(frozen=True, slots=True)
class Index:
    """A file of questions, checked.

    Args:
        path: the file.
        folder: where documents are.
        places: every question's, in order.
    """

    path: Path
    folder: Path
    places: tuple[Place, ...]

    def by_document(self, ahead: int = 0) -> tuple[Place, ...]:
        """The places, those of one document together, documents in order of first mention.

        Args:
            ahead: how many places before its own a document's first one
                stands. A document's first call goes alone; set out early, it
                has returned when the others come.
        """
        groups: dict[str, list[Place]] = {}
        for place in self.places:
            groups.setdefault(place.document, []).append(place)
        ordered: list[tuple[int, Place]] = []
        for first, *others in groups.values():
            start = len(ordered)
            ordered.append((start - ahead, first))
            ordered += ((start + at, one) for at, one in enumerate(others, 1))
        return tuple(one for _, one in sorted(ordered, key=lambda pair: pair[0]))


def read_index(path: str, folder: str = "") -> Index:
    """Check a file of questions and every document it names.

    Args:
        path: the file.
        folder: where documents are; by default where the file is.

    Raises:
        InputError: a row or a document cannot be used; the message names the
            first, and says how many there are.
    """
    file = Path(path)
    home = Path(folder) if folder else file.parent
    if folder and not home.is_dir():
        raise InputError(f"{folder} is no folder: name the one the documents are in.")
    places: list[Place] = []
    wrong: list[str] = []
    seen: dict[str, int] = {}
    documents: dict[str, str] = {}
    for number, offset, line in _lines(file):
        name = f"{path}:{number}"
        try:
            one = parse_question(line, name)
            if one.id in seen:
                raise InputError(f"{name} has the id of line {seen[one.id]}: give each its own.")
            seen[one.id] = number
            if one.plan == "" and not one.question:
                raise InputError(f"{name} has neither a question nor a plan: give one.")
            if not one.text and one.document not in documents:
                documents[one.document] = _trouble(one.document, home)
            if documents.get(one.document):
                raise InputError(f"{name}: {documents[one.document]}")
        except InputError as error:
            wrong.append(str(error))
            continue
        document = f"inline:{number}" if one.text else one.document
        places.append(Place(one.id, len(places), offset, document))
    if wrong:
        more = f" {len(wrong) - 1} more of its lines cannot be used." if len(wrong) > 1 else ""
        raise InputError(wrong[0] + more)
    if not places:
        raise InputError(f"{path} holds no question: give one JSON object a line.")
    return Index(file, home, tuple(places))


def read_questions(index: Index, places: tuple[Place, ...]) -> Iterator[tuple[Place, Question]]:
    """Read questions again, one at a time."""
    with index.path.open("rb") as file:
        for place in places:
            file.seek(place.offset)
            line = file.readline().decode("utf-8-sig")
            yield place, parse_question(line, f"{index.path}:{place.position + 1}")


def read_document(index: Index, question: Question) -> Source:
    """The document of a question.

    Raises:
        InputError: it cannot be read.
    """
    if question.text:
        return Source(f"document of {question.id}", question.text)
    path = _inside(question.document, index.folder)
    return Source(question.document, read_source(str(path), "document").text)


def parse_question(line: str, name: str) -> Question:
    """One row.

    Args:
        line: its JSON.
        name: its file and line, for messages.

    Raises:
        InputError: it cannot be used.
    """
    row = read_row(line, name)
    options = _options(row, name)
    document, text = _document(row, name)
    return Question(
        id=_id(row, name),
        question=" ".join(_text(row, "question", name).split()),
        document=document,
        text=text,
        options=options,
        gold=_gold(row, options, name),
        plan=_text(row, "plan", name),
    )


def _lines(file: Path) -> Iterator[tuple[int, int, str]]:
    """Line number, offset and text of every line that holds something."""
    try:
        with file.open("rb") as opened:
            yield from _decoded(opened, file)
    except IsADirectoryError:
        raise InputError(f"{file} is a directory: name a file of questions in it.") from None
    except FileNotFoundError:
        raise InputError(f"{file} does not exist: check the path of the questions.") from None
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}).") from None


def _decoded(opened: BinaryIO, file: Path) -> Iterator[tuple[int, int, str]]:
    offset = 0
    for number, data in enumerate(opened, 1):
        if data.strip():
            try:
                yield number, offset, data.decode("utf-8-sig")
            except UnicodeDecodeError:
                raise InputError(
                    f"{file}:{number} is not UTF-8: convert the file, for instance with "
                    "iconv -f LATIN1 -t UTF-8."
                ) from None
        offset += len(data)


def _id(row: dict[str, Any], name: str) -> str:
    given = row.get("id")
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    if not isinstance(given, str) or not given.strip() or not given.isprintable():
        raise InputError(f"{name} has no id: give each question one of its own.")
    return given


def _text(row: dict[str, Any], key: str, name: str) -> str:
    given = row.get(key)
    if given is None:
        return ""
    if not isinstance(given, str):
        raise InputError(f"{name}: {key} is to be a text.")
    return given


def _document(row: dict[str, Any], name: str) -> tuple[str, str]:
    given = row.get("document")
    if isinstance(given, dict):
        given, inline = given.get("text"), True
    else:
        inline = isinstance(given, str) and ("\n" in given or len(given) > LONGEST_PATH)
    if not isinstance(given, str) or not given.strip():
        raise InputError(f"{name} has no document: give a path, or the text itself.")
    return ("inline", given) if inline else (given, "")


def _options(row: dict[str, Any], name: str) -> tuple[str, ...]:
    given = row.get("options") or []
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise InputError(f"{name}: options is to be a list of texts.")
    try:
        check_options(given)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    return tuple(given)


def _gold(row: dict[str, Any], options: tuple[str, ...], name: str) -> str:
    given = row.get("gold")
    if given is None or given == "":
        return ""
    if not isinstance(given, str):
        raise InputError(f"{name}: gold is to be the right option's letter or text.")
    if not options:
        return given
    letters = [letter(at) for at in range(len(options))]
    if given.strip().upper() in letters:
        return given.strip().upper()
    if given in options:
        return letters[options.index(given)]
    raise InputError(f"{name}: gold is no option's letter and no option's text.")


def _trouble(document: str, home: Path) -> str:
    """Why a document cannot be used; empty where it can."""
    try:
        read_source(str(_inside(document, home)), "document")
    except InputError as error:
        return str(error)
    return ""


def _inside(document: str, home: Path) -> Path:
    """A document's path, which may not lead out of the folder: who wrote the rows is not asked."""
    path = home / document
    try:
        path.resolve().relative_to(home.resolve())
    except (ValueError, OSError, RuntimeError):
        raise InputError(
            f"{document} is not in {home}: name the folder that holds it with --documents."
        ) from None
    return path
