"""The plans to review, from files, folders, rows, runs and evaluations, and their runs.

Of a run, reviewers see the outputs, and the quotes in its document, as in the viewer. Files are
read and written only in the given folders.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pearl.evaluate.results import read_evaluation
from pearl.jobs.workers import remarks_on
from pearl.lang.errors import InputError, refuse
from pearl.lang.parser import parse
from pearl.lang.rows import lines_of, read_row
from pearl.lang.source import Source, files_below, read_plan, read_source
from pearl.lang.text import one_line
from pearl.lang.values import digest, to_json
from pearl.runtime.calls import Entry
from pearl.runtime.trace import is_trace, read_trace
from pearl.store.history import find_run, read_rows
from pearl.store.store import storable
from pearl.viewer.documents import (
    DocumentLookup,
    DocumentPiece,
    QuotedPassage,
    cut,
    documents_in,
    find_passages,
    paths_of,
    read_limited,
    read_name,
)
from pearl.viewer.job_page import with_text
from pearl.viewer.journal_tree import FrameNode, head_of, read_frames, read_journal

if TYPE_CHECKING:
    from sqlalchemy import Engine

Kind = Literal["file", "row", "run", "result"]

LONGEST = 64 * 1024
"""The most characters of a plan that can be reviewed."""

WHOLE = 200_000
"""The most characters of a document that is shown as a whole; a longer one is shown around its
quotes."""

AROUND = 1_500
"""Characters that are shown on either side of a quote in a longer document."""

LARGEST = 64 * 1024 * 1024
"""The most bytes of a document that is shown."""

_VERSION = re.compile(r"(.+)\.v([1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class Folders:
    """Where files may be read and written.

    Args:
        plans: folders of plans; new versions are written beside their plans.
        documents: a folder of documents; None for none.
        demos: the folder for demonstrations; None for none.
    """

    plans: tuple[Path, ...] = ()
    documents: Path | None = None
    demos: Path | None = None

    @property
    def readable(self) -> tuple[Path, ...]:
        """The folders in which documents are looked for."""
        return (*((self.documents,) if self.documents else ()), *self.plans)

    def find(self, name: str) -> Iterator[Source]:
        """The documents that a name may mean, the likeliest first.

        Args:
            name: the name in a run or a row, of one or several documents; it may be any text.
        """
        tried: set[tuple[Path, ...]] = set()
        for guess in paths_of(name, self.readable):
            inside = (within(path, self.readable) for path in guess)
            paths = tuple(path for path in inside if path is not None)
            if len(paths) == len(guess) and paths not in tried:
                tried.add(paths)
                if source := read_limited(paths, name, LARGEST):
                    yield source


def read_folders(names: list[str], documents: str, demos: str) -> Folders:
    """The folders that the user gave, with links resolved.

    Args:
        names: what is reviewed; only the folders among them count.
        documents: the folder of documents; empty for none.
        demos: the folder of demonstrations; empty for none.

    Raises:
        InputError: ``documents`` or ``demos`` is no folder.
    """
    for option, name in (("--documents", documents), ("--demos", demos)):
        if name and not Path(name).is_dir():
            raise InputError(f"{name} is no folder: make it, or name another with {option}.")
    plans = tuple(Path(name).resolve() for name in names if Path(name).is_dir())
    texts, kept = (Path(name).resolve() if name else None for name in (documents, demos))
    return Folders(plans, documents=texts, demos=kept)


def within(path: Path, roots: tuple[Path, ...]) -> Path | None:
    """A path with links resolved, if it exists and is in one of the folders; else None."""
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None
    return real if any(real.is_relative_to(root) for root in roots) else None


@dataclass(frozen=True, slots=True)
class QueuedPlan:
    """A plan in the queue.

    Args:
        kind: where it came from: a ``file``, a ``row`` of a file, a ``run``
            of the store, a ``result`` of an evaluation's file.
        name: its name for people, as ``plans/why.plan`` or ``a.jsonl:3``.
        question: the plan's question; empty where it is not known.
        text: the plan as it was written.
        place: its file, if that is in a given folder, where new versions may
            be written beside it; else None.
        run: the run's name, for a plan of the store.
        task: the question's id in that run; empty for a run of one question.
        about: what is known about its answer, as JSON data.
    """

    kind: Kind
    name: str
    question: str
    text: str
    place: Path | None = None
    run: str = ""
    task: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The id of its verdicts, which changes with the plan's text."""
        return digest([self.kind, self.name, self.text])[:16]


@dataclass(frozen=True, slots=True)
class Queue:
    """The plans to review.

    Args:
        items: the plans, in order, without repeats.
        left_out: files and rows that were skipped, each with the reason.
    """

    items: tuple[QueuedPlan, ...]
    left_out: tuple[str, ...] = ()


def read_queue(names: Sequence[str], folders: Folders, engine: Engine, place: str) -> Queue:
    """The plans in files, folders and runs.

    Args:
        names: files, folders, ``.jsonl`` files, and runs of the store.
        folders: the folders that may be read.
        engine: the store.
        place: its address, as the user wrote it.

    Raises:
        InputError: a name is no file, folder or run, or there is no plan.
    """
    unique: dict[str, QueuedPlan] = {}
    left_out: list[str] = []
    for name in names:
        path, passed = Path(name), list[str]()
        if path.is_dir():
            items = list(_folder(path, folders, passed))
        elif path.exists() or name == "-":
            items = list(_file(name, passed))
        else:
            items = list(_run_items(name, engine, place))
        left_out += passed
        if not items and not passed:
            left_out.append(f"{name} holds no plan: name plans, a folder of them, or a run.")
        for item in items:
            if len(item.text) > LONGEST:
                left_out.append(f"{item.name} is longer than {LONGEST:,} characters.")
            else:
                unique.setdefault(item.id, item)
    if not unique:
        refuse(left_out)
    return Queue(tuple(unique.values()), tuple(left_out))


def _folder(folder: Path, folders: Folders, left_out: list[str]) -> Iterator[QueuedPlan]:
    files, shut = files_below(folder)
    left_out += map(str, shut)
    for file in files:
        leads_nowhere = os.path.islink(file) and not os.path.exists(file)
        if not file.name.endswith(".plan") or leads_nowhere or is_version(file):
            continue
        inside = within(file, folders.plans)
        if inside is None:
            left_out.append(f"{file} leads out of {folder}.")
            continue
        try:
            source = read_plan(str(file))
        except InputError as error:
            left_out.append(str(error))
        else:
            yield _plan(source, inside)


def is_version(file: Path) -> bool:
    """Whether a plan's file is a later version of another one beside it."""
    match = _VERSION.fullmatch(file.stem)
    return match is not None and file.with_name(f"{match[1]}{file.suffix}").exists()


def _file(name: str, left_out: list[str]) -> Iterator[QueuedPlan]:
    if not name.endswith(".jsonl"):
        item = _plan(read_plan(name))
        parsed = parse(item.text)
        # A text without steps, not even broken ones, is no plan.
        if parsed.plan.steps or parsed.broken:
            yield item
        return
    rows: list[tuple[str, dict[str, Any]]] = []
    for where, line in lines_of(read_source(name, "file of plans", rows=True)):
        try:
            rows.append((where, read_row(line, where)))
        except InputError as error:
            left_out.append(str(error))
    if rows and "evaluation" in rows[0][1]:
        for result in read_evaluation(name).results:
            where = f"{name}, {result.method}, {result.id}"
            row = {
                "question": result.question,
                "answer": result.words,
                "options": list(result.options),
                "option": result.answer,
                "gold": result.gold,
                "result": {"measures": result.measures},
                "error": {"message": result.error},
            }
            yield from _item("result", where, result.plan, row)
        return
    for where, row in rows:
        items = [*_item("row", where, row.get("plan"), row)]
        if not items:
            left_out.append(f"{where} has no plan.")
        yield from items


def _plan(source: Source, place: Path | None = None) -> QueuedPlan:
    question = parse(source).plan.question
    return QueuedPlan(
        "file", storable(source.name), storable(question), storable(source.text), place
    )


def _run_items(name: str, engine: Engine, place: str) -> Iterator[QueuedPlan]:
    """The plans of a run, given by its name, the start of it, or ``last``; RUN/ID for one question.
    An `InputError` where there is no such run, or no plan in it."""
    start, _, task = name.partition("/")
    try:
        run = find_run(engine, start, place, time.time())
    except InputError as error:
        raise InputError(f"{name} is no file and no folder. {error}") from None
    if not run.has_rows:
        plans = [entry.value for entry in read_journal(engine, run, "") if entry.path == "plan"]
        if not plans or not plans[-1]:
            raise InputError(f"The run {run.name} has no plan: it stopped before one was accepted.")
        yield from _item("run", run.name, plans[-1], run.head, run.name)
        return
    items: list[QueuedPlan] = []
    for id, stored in read_rows(engine, run.name):
        if task and id != task:
            continue
        row = stored
        if isinstance(result := stored.get("result"), dict):
            # An evaluation's result says "words" for the answer, and "answer" for the option.
            named = {"answer": result.get("words"), "option": result.get("answer")}
            row = {**result, **stored, **named}
        items += _item("run", f"{run.name}/{id}", row.get("plan"), row, run.name, id)
    if not items:
        lack = f"question {task} with a plan" if task else "plan in its rows"
        raise InputError(f"The run {run.name} has no {lack}: pearl runs show {run.name} lists it.")
    yield from items


def _item(
    kind: Kind, name: str, text: object, row: Mapping[str, Any], run: str = "", task: str = ""
) -> Iterator[QueuedPlan]:
    """The plan of a row; nothing where it has none."""
    if not isinstance(text, str) or not text.strip():
        return
    question = row.get("question")
    if not isinstance(question, str) or not question.strip():
        question = parse(text).plan.question
    question = storable(one_line(question))
    yield QueuedPlan(kind, name, question, storable(text), run=run, task=task, about=_about(row))


def _about(row: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a row about its answer that reviewers see; values of other types are skipped."""
    about: dict[str, Any] = {}
    for key in ("id", "answer", "words", "document", "gold"):
        if isinstance(row.get(key), str) and row[key].strip():
            about[key] = row[key]
    option = row.get("option")
    if isinstance(option, dict):
        option = f"{option.get('letter', '')}. {option.get('text', '')}"
    if isinstance(option, str) and option.strip(". "):
        about["option"] = option
    options = row.get("options")
    if isinstance(options, list) and all(isinstance(text, str) for text in options):
        about["options"] = options
        for key in ("option", "gold"):
            if key in about:
                about[key] = with_text(about[key], options)
    error = row.get("error")
    if isinstance(error, dict) and isinstance(message := error.get("message"), str) and message:
        about["failed"] = message
    if remarks := remarks_on(row):
        about["remarks"] = ", ".join(remarks)
    document = row.get("document")
    if isinstance(document, dict) and isinstance(document.get("text"), str):
        about["inline"] = document["text"]
    stored: dict[str, Any] = json.loads(storable(json.dumps(about, ensure_ascii=False)))
    return stored


@dataclass(frozen=True, slots=True)
class RunView:
    """A run, as a reviewer sees it.

    Args:
        name: the run's name; empty where it is not in the store.
        note: what is not known, and why.
        frame: the results of its steps; None where the plan was not run.
        document: the document it read, or why that is not shown.
        quotes: the quotes in its outputs.
    """

    name: str = ""
    note: str = ""
    frame: FrameNode | None = None
    document: DocumentLookup = field(default_factory=lambda: DocumentLookup(None))
    quotes: tuple[QuotedPassage, ...] = ()

    @property
    def pieces(self) -> list[tuple[int, DocumentPiece]]:
        """The document cut at its quotes, each piece with the number of characters left out before
        it."""
        if self.document.text is None:
            return []
        return list(shorten_pieces(cut(self.document.text, self.quotes)))


def read_run(item: QueuedPlan, engine: Engine, folders: Folders) -> RunView:
    """The run of a plan, as far as it is known.

    Args:
        item: the plan.
        engine: the store.
        folders: where documents may be read.
    """
    run = None
    with suppress(InputError):
        # The run may have been deleted.
        run = find_run(engine, item.run, "the store", time.time()) if item.run else None
    if run is not None:
        entries = read_journal(engine, run, item.task)
        written = [] if any(entry.path == "plan" for entry in entries) else [("plan", item.text)]
        frame = _frame(written, entries)
        failed = frame.decisions.get("failed")
        note = f"The run failed: {failed}" if failed else ""
        named = head_of(entries).get("document")
        document = find_document(str(named or ""), folders, run.head, item.task)
        return _view(run.name, note, frame, document)
    source, trace = Source(item.name, item.text), None
    if is_trace(source):
        with suppress(InputError):
            trace = read_trace(source)
    if trace is not None:
        values = [(f"value/{path.removeprefix('step/')}", v) for path, v in trace.values.items()]
        quotes = [(f"evidence/{name}", to_json(lines)) for name, lines in trace.evidence.items()]
        frame = _frame([("plan", item.text), *values, *quotes])
        lines = (line for line in item.text.split("\n") if line.startswith("# document: "))
        return _view(
            "", "", frame, find_document(next(lines, "").removeprefix("# document: "), folders)
        )
    answer = str(item.about.get("answer") or item.about.get("words") or "")
    if not answer and not item.about.get("option"):
        if failed := item.about.get("failed"):
            return RunView(note=f"The run failed: {failed}")
        return RunView(
            note="This plan has not been run, as far as is known here: it came from a file, with "
            "no run and no answer. pearl run runs it; pearl review RUN shows it with its outputs."
        )
    document = find_document(str(item.about.get("document", "")), folders)
    if "inline" in item.about:
        document = DocumentLookup(read_name("document"), Source("document", item.about["inline"]))
    note = "What the steps gave is not known: the file has the answer only."
    decided = {"outputs": ["answer"], "text": answer}
    return _view("", note, _frame([("answer", decided), ("value/answer", answer)]), document)


def _frame(decisions: Sequence[tuple[str, Any]], entries: Sequence[Entry] = ()) -> FrameNode:
    return read_frames([*(Entry("decision", path, data) for path, data in decisions), *entries])[0]


def _view(name: str, note: str, frame: FrameNode, document: DocumentLookup) -> RunView:
    quotes = find_passages(frame, document.text)
    return RunView(name, note, frame, document, tuple(quotes))


def find_document(
    text: str, folders: Folders, run: Mapping[str, Any] | None = None, item: str = ""
) -> DocumentLookup:
    """Look for a document by its name, only in the given folders.

    Args:
        text: the name, followed by the text's size and hash where these are known.
        folders: the folders that may be read.
        run: the head of the run, whose file of questions may hold the document.
        item: the question's id; empty for a run of one question.
    """
    if not text.strip():
        return DocumentLookup(None, None, "It is not known which document this was.")
    named = read_name(text)
    trouble = (
        f"{named.name} is in none of the folders that were given: start pearl review with "
        "--documents and the folder that holds it."
    )
    for source in folders.find(named.name):
        if not named.digest or source.digest == named.digest:
            return DocumentLookup(named, source)
        trouble = f"{named.name} is another text than the one that was read."
    file = within(Path(str((run or {}).get("questions", ""))), folders.readable) if item else None
    if run and file and file.is_file():
        for source in documents_in(file, run, item, named):
            return DocumentLookup(named, source)
    return DocumentLookup(named, None, trouble)


def shorten_pieces(pieces: Sequence[DocumentPiece]) -> Iterator[tuple[int, DocumentPiece]]:
    """Pieces of a document, each with the number of characters left out before it; a long document
    is shortened to its quotes and the text around them.

    Args:
        pieces: the whole document, in order.
    """
    whole = sum(len(piece.text) for piece in pieces) <= WHOLE
    quoted = any(piece.kind for piece in pieces)
    for at, piece in enumerate(pieces):
        # Text next to a quote is kept; without quotes, the beginning of the document.
        before = AROUND if at > 0 or not quoted else 0
        after = AROUND if at < len(pieces) - 1 else 0
        left_out = len(piece.text) - before - after
        if whole or piece.kind or left_out <= 0:
            yield 0, piece
            continue
        yield 0, DocumentPiece(piece.text[:before])
        yield left_out, DocumentPiece(piece.text[len(piece.text) - after :])
