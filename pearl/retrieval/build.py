"""Build an index of a corpus."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from pearl.retrieval.corpus import Corpus, Row, digest_of
from pearl.retrieval.engine import document, load_engine, new_index
from pearl.retrieval.folder import (
    IndexInfo,
    check_place,
    files_of,
    new_part,
    publish,
    read_info,
)
from pearl.source import InputError

if TYPE_CHECKING:
    from tantivy import IndexWriter

_HEAP = 64_000_000
"""Bytes of terms that each of the engine's threads gathers before it writes them out."""

_THREADS = 2


@dataclass(frozen=True, slots=True)
class Built:
    """What a build came to.

    Args:
        info: the index.
        fresh: False where it was there already, of the same corpus.
    """

    info: IndexInfo
    fresh: bool


def build_index(
    corpus: str, target: str, told: Callable[[int, int], None] = lambda done, of: None
) -> Built:
    """Build an index, in the place of an older one.

    Args:
        corpus: JSON lines with ``id``, ``text`` and optionally ``title``.
        target: the index, a folder; there it is whole, or as it was.
        told: told how many bytes of the corpus are read, and of how many.

    Raises:
        InputError: a line cannot be used (the first is named, the others are
            counted), two have one id, or the index cannot be written.
    """
    read = Corpus(corpus)
    engine = load_engine()
    check_place(target)
    known = _known(read, target)
    if known:
        return Built(known, fresh=False)
    try:
        with new_part(target) as part:
            passages = _fill(part, read, told)
            size, digest = read.seen
            name, files = Path(corpus).name, files_of(part)
            info = IndexInfo(name, digest, size, passages, part.name, engine, files)
            publish(target, info)
    except (OSError, ValueError, sqlite3.Error) as error:
        # The engine says ValueError for whatever the disk says to it.
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise InputError(
            f"{target} cannot be written ({reason}): make room, or name a place of your own."
        ) from None
    return Built(info, fresh=True)


def _known(corpus: Corpus, target: str) -> IndexInfo | None:
    """The index that is there, if it is this corpus'."""
    try:
        info = read_info(target)
        same = info.size == corpus.size and digest_of(corpus.path) == info.digest
    except (InputError, OSError):
        return None
    return info if same else None


def _fill(part: Path, corpus: Corpus, told: Callable[[int, int], None]) -> int:
    """Write every paragraph of a corpus; how many there are."""
    count = 0
    with _writer(part) as writer, closing(_Ids(part / "ids.db")) as ids:
        for row in _usable(corpus, ids):
            writer.add_document(document(row.id, row.title, row.text))
            count += 1
            told(row.end, corpus.size)
        if not count:
            raise InputError(f"{corpus.path} holds no paragraph: give one JSON object a line.")
    return count


@contextmanager
def _writer(part: Path) -> Iterator[IndexWriter]:
    """The engine's writer, whose threads have ended when it is left, however it is left."""
    writer = new_index(part).writer(_HEAP * _THREADS, _THREADS)
    try:
        yield writer
    except BaseException:
        with suppress(ValueError, OSError):
            writer.rollback()
            writer.wait_merging_threads()
        raise
    writer.commit()
    writer.wait_merging_threads()


def _usable(corpus: Corpus, ids: _Ids) -> Iterator[Row]:
    """The paragraphs, up to the first line that is none; then the rest is only looked at.

    Raises:
        InputError: at the end, where there was such a line.
    """
    first: InputError | None = None
    wrong = 0
    for row in corpus.rows():
        problem = row if isinstance(row, InputError) else ids.problem(row, corpus.path)
        if problem:
            first = first or problem
            wrong += 1
        elif isinstance(row, Row) and not first:
            yield row
    if first:
        more = f" {wrong - 1:,} more of its lines cannot be used." if wrong > 1 else ""
        raise InputError(f"{first}{more}")


class _Ids:
    """Which ids there have been, on disk: a corpus may have more than memory holds."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._database = sqlite3.connect(file, isolation_level=None)
        self._database.executescript(
            "pragma journal_mode = off; pragma synchronous = off; pragma cache_size = -16000;"
            "create table ids (id blob primary key, line integer) without rowid; begin"
        )

    def problem(self, row: Row, path: str) -> InputError | None:
        """What is wrong with a row's id, if another row has it; else it is taken."""
        key = blake2b(row.id.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        try:
            self._database.execute("insert into ids values (?, ?)", (key, row.line))
        except sqlite3.IntegrityError:
            found = self._database.execute("select line from ids where id = ?", (key,)).fetchone()
            return InputError(
                f"{path}:{row.line} has the id of line {found[0]}: give each paragraph its own."
            )
        return None

    def close(self) -> None:
        """Let go of them."""
        self._database.close()
        self._file.unlink()
