"""Build an index of a corpus, and search it, with tantivy (github.com/quickwit-oss/tantivy-py).

The engine gets terms, never text: one way of reading words serves indexes and
documents alike, and no query reaches a parser of queries. Its scores are BM25
with k1 = 1.2 and b = 0.75 (Robertson and Zaragoza, "The Probabilistic
Relevance Framework: BM25 and Beyond", 2009, section 3.2).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any
from weakref import finalize

from pearl.lang.documents import ENDINGS
from pearl.lang.source import NAMED, InputError, LinesError, install_command
from pearl.retrieval.index_files import (
    Corpus,
    Folder,
    IndexInfo,
    Row,
    check_place,
    damaged,
    files_of,
    new_part,
    publish,
    read_info,
)
from pearl.retrieval.retriever import Passage, in_order, near
from pearl.retrieval.terms import field_terms, query_terms

if TYPE_CHECKING:
    from tantivy import DocAddress, Index, IndexWriter, Searcher


_SPARE = 16
"""Passages looked at beyond those asked for, as equal ones stand by their ids."""


def load_engine() -> str:
    """The engine's version; an `InputError` where it is not installed."""
    try:
        import tantivy  # noqa: F401 - whether it can be is the question
    except ImportError:
        raise InputError(f"An index needs tantivy: {install_command('corpus')}.") from None
    return version("tantivy")


def open_index(path: str) -> CorpusRetriever:
    """Open an index; the engine itself is started by the first search.

    Args:
        path: the folder that ``pearl index`` made.

    Raises:
        InputError: there is none, it is of another version, it is damaged, or
            the engine is not installed.
    """
    load_engine()
    return CorpusRetriever(path, read_info(path))


@dataclass(frozen=True)
class CorpusRetriever:
    """The paragraphs of an index.

    Threads may share one: the engine's view of an index never changes, and a
    search lets other threads run. In a coroutine, ``await
    asyncio.to_thread(retriever.search, query, k)``.

    Args:
        path: the index.
        info: what it says of itself.
    """

    path: str
    info: IndexInfo

    def search(self, query: str, k: int) -> list[Passage]:
        """As `Retriever.search`; an `InputError` where the index is damaged."""
        terms = query_terms(query)
        if not terms or k < 1:
            return []
        try:
            passages: list[Passage] = []
            for score, address in self._hits(terms, k):
                stored: Any = self._opened[1].doc(address).get_first("passage")
                id, title, text = json.loads(bytes(stored).decode("utf-8", "surrogatepass"))
                passages.append(Passage(id, title, text, score))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise damaged(self.path, " ".join(str(error).split())) from None
        except BaseException as error:
            # What the engine did not expect reaches Python as a panic, which is no Exception.
            if type(error).__name__ != "PanicException":
                raise
            raise damaged(self.path, "the engine cannot read it") from None
        return in_order(passages)[:k]

    @cached_property
    def _opened(self) -> tuple[Index, Searcher]:
        """The index that is there now: it may have been built anew since it was named.

        The engine makes a lock beside an index that it opens, which need not be one's own to
        write, so it is shown the files in a folder of its own, which goes with the retriever.
        """
        from tantivy import Index

        info, folder = read_info(self.path), mkdtemp(prefix="pearl-index-")
        finalize(self, rmtree, folder, ignore_errors=True)
        for name in info.files:
            Path(folder, name).symlink_to(Path(self.path, info.part, name).absolute())
        try:
            index = Index.open(folder)
            return index, index.searcher()
        except ValueError:
            if info.engine == load_engine():
                raise
            raise InputError(
                f"{self.path} was built with tantivy {info.engine[:20]}, which the tantivy that is "
                f"installed, {load_engine()}, does not read: build it again with pearl index."
            ) from None

    def _hits(self, terms: Sequence[str], k: int) -> list[tuple[float, DocAddress]]:
        """The best hits, and with them every one that is equal to the last of those asked for."""
        from tantivy import Occur, Query

        index, searcher = self._opened
        queries = [Query.term_query(index.schema, "terms", term, "freq") for term in terms]
        query = Query.boolean_query([(Occur.Should, term_query) for term_query in queries])
        limit = min(k + _SPARE, searcher.num_docs)
        while True:
            hits = searcher.search(query, limit, count=False).hits
            for at, (hit, following) in enumerate(pairwise(hits[k - 1 :]), k):
                if not near(hit[0], following[0]):
                    return hits[:at]
            if len(hits) < limit or limit == searcher.num_docs:
                return hits
            limit = min(limit * 8, searcher.num_docs)


_HEAP = 64_000_000
"""Bytes of terms that each of the engine's threads gathers before it writes them out."""

_THREADS = 2


def _is_document(corpus: str) -> bool:
    """Whether a file is a document, and no JSON lines, whatever it is called."""
    path = Path(corpus)
    if path.suffix.lower() not in ENDINGS or not path.is_file():
        return False
    with path.open("rb") as file:
        return not file.read(1024).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")


def build_index(
    corpus: str, target: str, progress: Callable[[int, int], None] = lambda done, of: None
) -> IndexInfo:
    """Build an index, in the place of an older one.

    Args:
        corpus: JSON lines with ``id``, ``text`` and optionally ``title``, or a document
            or a folder of them.
        target: the index, a folder; there it is whole, or as it was.
        progress: told how many bytes of the corpus are read, and of how many.

    Raises:
        InputError: a line cannot be used (the first is named, the others are
            counted), two have one id, or the index cannot be written.
    """
    read = Folder(corpus) if Path(corpus).is_dir() or _is_document(corpus) else Corpus(corpus)
    engine = load_engine()
    check_place(target)
    with suppress(InputError, OSError):
        existing = read_info(target)
        if existing.size == read.size and read.digest() == existing.digest:
            return replace(existing, fresh=False)
    try:
        with new_part(target) as part:
            passages = _fill(part, read, progress)
            size, digest = read.extent
            name, files = Path(corpus).absolute().name, files_of(part)
            info = IndexInfo(name, digest, size, passages, part.name, engine, files)
            publish(target, info)
    except (OSError, ValueError, sqlite3.Error) as error:
        # The engine says ValueError for whatever the disk says to it.
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise InputError(
            f"{target} cannot be written ({reason}): make room, or name a place of your own."
        ) from None
    return info


def _fill(part: Path, corpus: Corpus | Folder, progress: Callable[[int, int], None]) -> int:
    """Write every paragraph of a corpus; how many there are."""
    from tantivy import Document

    count = 0
    with _writer(part) as writer, closing(_Ids(part / "ids.db")) as ids:
        for row in _usable(corpus, ids):
            document = Document()
            document.add_text("terms", " ".join(field_terms(row.title, row.text)))
            # JSON may hold halves of characters, and a corpus is given back to the letter.
            stored = json.dumps([row.id, row.title, row.text], ensure_ascii=False)
            document.add_bytes("passage", stored.encode("utf-8", "surrogatepass"))
            writer.add_document(document)
            count += 1
            progress(row.end, corpus.size)
        if not count:
            raise InputError(f"{corpus.path} holds no paragraph: give one JSON object a line.")
    return count


@contextmanager
def _writer(part: Path) -> Iterator[IndexWriter]:
    """The engine's writer of a new index, whose threads have ended when it is left."""
    from tantivy import Index, SchemaBuilder

    schema = SchemaBuilder()
    # Neither positions nor the engine's own reading: terms come with spaces between them.
    schema.add_text_field("terms", tokenizer_name="whitespace", index_option="freq")
    schema.add_bytes_field("passage", stored=True)
    index = Index(schema.build(), str(part), reuse=False)
    writer = index.writer(_HEAP * _THREADS, _THREADS)
    try:
        yield writer
    except BaseException:
        with suppress(ValueError, OSError):
            writer.rollback()
            writer.wait_merging_threads()
        raise
    writer.commit()
    writer.wait_merging_threads()


def _usable(corpus: Corpus | Folder, ids: _Ids) -> Iterator[Row]:
    """The paragraphs, up to the first line that is none; all such lines make a `LinesError`."""
    wrong: list[str] = []
    count = 0
    for row in corpus.rows():
        if problem := row if isinstance(row, InputError) else ids.problem(row, corpus.path):
            count += 1
            wrong += [str(problem)] if count <= NAMED else []
        elif isinstance(row, Row) and not wrong:
            yield row
    if wrong:
        raise LinesError(wrong, count - len(wrong))


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
            first = self._database.execute("select line from ids where id = ?", (key,)).fetchone()
            return InputError(
                f"{path}:{row.line} has the id of line {first[0]}: give each paragraph its own."
            )
        return None

    def close(self) -> None:
        """Close the database and remove its file."""
        self._database.close()
        self._file.unlink()
