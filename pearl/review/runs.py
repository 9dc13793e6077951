"""What a plan did when it ran: its steps' outputs, and the quotes in the document that it read.

Records and quotes are the viewer's. The document is read from the folders that were given only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pearl.lang.source import InputError, Source
from pearl.review.folders import Folders
from pearl.review.queue import Item, read_journal, run_of
from pearl.runtime.calls import Entry
from pearl.runtime.trace import is_trace, read_trace
from pearl.viewer.documents import (
    DocumentLookup,
    Passage,
    Piece,
    cut,
    documents_in,
    find_passages,
    read_name,
)
from pearl.viewer.journal import Frame, head_of, read_frames

if TYPE_CHECKING:
    from sqlalchemy import Engine

WHOLE = 200_000
"""Characters of a document that is shown as a whole; of a longer one, what is around the quotes."""

AROUND = 1_500
"""Characters on either side of a quote in a longer document."""

NOT_LOOKED_FOR = DocumentLookup(None)
"""What came of looking for no document."""


@dataclass(frozen=True, slots=True)
class RunView:
    """A run, as a reviewer sees it.

    Args:
        name: the run's; empty where there was none in the store.
        note: what is not known, and why.
        frame: what its steps came to; None where the plan was not run.
        document: what it read, or why that is not shown.
        quotes: of its outputs.
    """

    name: str = ""
    note: str = ""
    frame: Frame | None = None
    document: DocumentLookup = NOT_LOOKED_FOR
    quotes: tuple[Passage, ...] = ()

    @property
    def pieces(self) -> list[tuple[int, Piece]]:
        """The document cut at its quotes, with the characters left out before each piece."""
        if self.document.text is None:
            return []
        return list(shorten_pieces(cut(self.document.text, self.quotes)))


def read_run(item: Item, engine: Engine, folders: Folders) -> RunView:
    """What is known of a plan's run.

    Args:
        item: the plan.
        engine: the store.
        folders: where documents may be read.
    """
    run = run_of(engine, item.run) if item.run else None
    if run is not None:
        entries = read_journal(engine, run, item.task)
        written = [] if any(entry.path == "plan" for entry in entries) else [("plan", item.text)]
        frame = _frame(written, entries)
        failed = frame.decisions.get("failed")
        note = f"The run failed: {failed}" if failed else ""
        named = head_of(entries).get("document")
        document = find(str(named or ""), folders, run.head, item.task)
        return _view(run.name, note, frame, document)
    source, trace = Source(item.name, item.text), None
    if is_trace(source):
        with suppress(InputError):
            trace = read_trace(source)
    if trace is not None:
        values = [(f"value/{path.removeprefix('step/')}", v) for path, v in trace.values.items()]
        quotes = [(f"evidence/{name}", lines) for name, lines in trace.evidence.items()]
        frame = _frame([("plan", item.text), *values, *quotes])
        lines = (line for line in item.text.split("\n") if line.startswith("# document: "))
        return _view("", "", frame, find(next(lines, "").removeprefix("# document: "), folders))
    answer = str(item.about.get("answer") or item.about.get("words") or "")
    if not answer and not item.about.get("option"):
        return RunView(
            note="This plan has not been run, as far as is known here: it came from a file, with "
            "no run and no answer. pearl run runs it; pearl review RUN shows it with its outputs."
        )
    document = find(str(item.about.get("document", "")), folders)
    if "inline" in item.about:
        document = DocumentLookup(read_name("document"), Source("document", item.about["inline"]))
    note = "What the steps gave is not known: the file has the answer only."
    decided = {"outputs": ["answer"], "text": answer}
    return _view("", note, _frame([("answer", decided), ("value/answer", answer)]), document)


def _frame(decisions: Sequence[tuple[str, Any]], entries: Sequence[Entry] = ()) -> Frame:
    return read_frames([*(Entry("decision", path, it) for path, it in decisions), *entries])[0]


def _view(name: str, note: str, frame: Frame, document: DocumentLookup) -> RunView:
    quotes = find_passages(frame.plan, frame.values, frame.ends, document.text)
    return RunView(name, note, frame, document, tuple(quotes))


def find(
    text: str, folders: Folders, run: Mapping[str, Any] | None = None, item: str = ""
) -> DocumentLookup:
    """A document by its name, in the folders that were given and nowhere else.

    Args:
        text: the name, and behind it the text's size and hash where these are known.
        folders: where it may be.
        run: what the run says of itself; its questions may hold the document.
        item: the question's id; empty where the run has one only.
    """
    if not text.strip():
        return DocumentLookup(None, None, "It is not known which document this was.")
    named = read_name(text)
    other = False
    for source in folders.find(named.name):
        if not named.digest or source.digest == named.digest:
            return DocumentLookup(named, source)
        other = True
    file = folders.inside_any(Path(str((run or {}).get("questions", "")))) if item else None
    if run and file:
        home = str(folders.documents or "")
        for source in documents_in(file, run, item, named, home):
            return DocumentLookup(named, source)
    if other:
        trouble = f"{named.name} is another text than the one that was read."
    else:
        trouble = (
            f"{named.name} is in none of the folders that were given: start pearl review with "
            "--documents and the folder that holds it."
        )
    return DocumentLookup(named, None, trouble)


def shorten_pieces(pieces: Sequence[Piece]) -> Iterator[tuple[int, Piece]]:
    """Pieces with the characters left out before each; of a long document, what is around quotes.

    Args:
        pieces: the whole document, in order.
    """
    whole = sum(len(piece.text) for piece in pieces) <= WHOLE
    quoted = any(piece.kind for piece in pieces)
    for at, piece in enumerate(pieces):
        # Around a quote its neighbours are shown; where nothing is quoted, the beginning is.
        before = AROUND if at > 0 or not quoted else 0
        after = AROUND if at < len(pieces) - 1 else 0
        left_out = len(piece.text) - before - after
        if whole or piece.kind or left_out <= 0:
            yield 0, piece
            continue
        yield 0, Piece(piece.text[:before])
        yield left_out, Piece(piece.text[len(piece.text) - after :])
