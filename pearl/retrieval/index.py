"""The index of a corpus: building it, keeping it on disk, and searching it.

The engine is tantivy (github.com/quickwit-oss/tantivy-py). It gets terms, never text, so that
indexes and documents are tokenized alike and no query reaches a query parser. Its
scores are BM25 with k1 = 1.2 and b = 0.75 (Robertson and Zaragoza, "The Probabilistic Relevance
Framework: BM25 and Beyond", 2009, section 3.2).

An index is a folder with a note, ``index.json``, and a part that the note
names. A build fills a part of its own and then puts its note in the place of
the older one, which is one step for the file system: whoever opens the folder
finds the older index or the new one, and a build that is killed leaves the
older. What killed builds leave behind goes with the next one.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any
from weakref import finalize

from pearl.lang.errors import NAMED, InputError, LinesError, install_command
from pearl.lang.output_files import lock, replacing
from pearl.lang.text import one_line
from pearl.retrieval.corpus import Corpus, CorpusParagraph, Folder, digest_of, open_corpus
from pearl.retrieval.retriever import Passage, in_order, near
from pearl.retrieval.terms import field_terms, query_terms

if TYPE_CHECKING:
    from tantivy import DocAddress, Index, IndexWriter, Searcher

FORMAT = 1
"""The version of the format. It goes up with every change that makes older indexes answer
differently: of terms, weights or files."""

_NOTE = "index.json"
_PART = "part-"
_LOCK = "building"


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """What an index's note says.

    Args:
        corpus: the name of the file it was made from.
        digest: that file's SHA-256.
        size: that file's size in bytes.
        passages: how many it holds.
        part: the folder within it that holds them.
        engine: the version of tantivy that wrote them.
        files: the part's files, each with its size in bytes and its SHA-256.
        fresh: False where `build_index` found that the index was up to date.
    """

    corpus: str
    digest: str
    size: int
    passages: int
    part: str
    engine: str
    files: dict[str, tuple[int, str]]
    fresh: bool = field(default=True, compare=False)

    @property
    def bytes(self) -> int:
        """The size of the index's files, in bytes."""
        return sum(size for size, _ in self.files.values())


def is_index(path: str) -> bool:
    """Whether a path is an index, of whatever version and in whatever state."""
    return (Path(path) / _NOTE).is_file()


def read_info(path: str) -> IndexInfo:
    """Read an index's note, and check that its files are there.

    Args:
        path: the index.

    Raises:
        InputError: there is no index, it is of another version, or a file is
            missing or has the wrong size.
    """
    info = _read_note(path)
    if not Path(path, info.part).is_dir():
        # A build may have replaced the part since the note was read.
        info = _read_note(path)
    for name, (size, _) in info.files.items():
        try:
            actual = Path(path, info.part, name).stat().st_size
        except OSError:
            raise _damaged(path, f"{name} is missing") from None
        if actual != size:
            raise _damaged(path, f"{name} has {actual:,} bytes and not {size:,}")
    return info


def check_index(path: str) -> IndexInfo:
    """As `read_info`, and check every file against its digest."""
    info = read_info(path)
    for name, (_, digest) in info.files.items():
        try:
            actual = digest_of(str(Path(path, info.part, name)))
        except OSError:
            actual = ""
        if actual != digest:
            raise _damaged(path, f"{name} has changed since it was written")
    return info


def _damaged(path: str, reason: str) -> InputError:
    """The error for a damaged index."""
    return InputError(f"{path} is damaged ({reason}): build it again with pearl index.")


def _read_note(path: str) -> IndexInfo:
    folder = Path(path)
    try:
        note = json.loads((folder / _NOTE).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"{path} is no index: build one with pearl index CORPUS -o {path}."
        ) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): check its path.") from None
    except (ValueError, RecursionError):
        raise _damaged(path, f"{_NOTE} is not JSON") from None
    if not isinstance(note, dict) or "pearl_index" not in note:
        raise InputError(f"{path} is no index of Pearl's: its {_NOTE} is something else.")
    if note["pearl_index"] != FORMAT:
        raise InputError(
            f"{path} is an index of version {str(note['pearl_index'])[:20]}, and this Pearl reads "
            f"version {FORMAT}: build it again with pearl index."
        )
    try:
        files = {
            str(name): (int(size), str(digest)) for name, (size, digest) in note["files"].items()
        }
        for name in (note["part"], *files):
            # A note that somebody else wrote may not lead out of its own folder.
            if Path(name).name != name or name in (".", ".."):
                raise ValueError(name)
        corpus = note["corpus"]
        return IndexInfo(
            corpus=str(corpus["name"]),
            digest=str(corpus["sha256"]),
            size=int(corpus["bytes"]),
            passages=int(note["passages"]),
            part=str(note["part"]),
            engine=str(note["engine"]),
            files=files,
        )
    except (KeyError, TypeError, ValueError):
        raise _damaged(path, f"{_NOTE} lacks what it should say") from None


# --- searching it ---

_SPARE = 16
"""Passages looked at beyond those asked for, because equal scores are ordered by id."""


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
        InputError: there is no index, it is of another version or damaged, or
            the engine is not installed.
    """
    load_engine()
    return CorpusRetriever(path, read_info(path))


@dataclass(frozen=True)
class CorpusRetriever:
    """The paragraphs of an index.

    Threads may share a retriever: the engine's view of an index never changes,
    and a search lets other threads run. In a coroutine, ``await
    asyncio.to_thread(retriever.search, query, k)``.

    Args:
        path: the index.
        info: what its note says.
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
            raise _damaged(self.path, one_line(str(error))) from None
        except BaseException as error:
            # A panic of the engine reaches Python as an error that is no Exception.
            if type(error).__name__ != "PanicException":
                raise
            raise _damaged(self.path, "the engine cannot read it") from None
        return in_order(passages)[:k]

    @cached_property
    def _opened(self) -> tuple[Index, Searcher]:
        """The index as it is now; it may have been rebuilt since the retriever was made.

        The engine writes a lock file beside an index that it opens, and the index may be
        read-only. So it opens links to the files in a folder of its own, which is removed with the
        retriever.
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
        """The best ``k`` hits, and all further ones whose score is equal to that of the last."""
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


# --- building it ---

_HEAP = 64_000_000
"""Bytes of memory that each of the engine's threads fills with terms before it writes them out."""

_THREADS = 2


def build_index(
    corpus: str, target: str, progress: Callable[[int, int], None] = lambda done, of: None
) -> IndexInfo:
    """Build an index, or replace an older one; one that is up to date stays.

    Args:
        corpus: JSON lines with ``id``, ``text`` and optionally ``title``, or a document
            or a folder of them.
        target: the folder of the index; if the build fails, it is as it was.
        progress: called with the bytes of the corpus that are read, and all its bytes.

    Raises:
        LinesError: lines cannot be used, or two of them have one id.
        InputError: the corpus cannot be read or is empty, the engine is not
            installed, or the index cannot be written.
    """
    read = open_corpus(corpus)
    engine = load_engine()
    _check_place(target)
    with suppress(InputError, OSError):
        existing = read_info(target)
        if existing.size == read.size and read.digest() == existing.digest:
            return replace(existing, fresh=False)
    try:
        with _new_part(target) as part:
            passages = _fill(part, read, progress)
            size, digest = read.extent
            written = [file for file in sorted(part.iterdir()) if file.is_file()]
            sizes = [(file, file.stat().st_size) for file in written]
            files = {file.name: (count, digest_of(str(file))) for file, count in sizes if count}
            name = Path(corpus).absolute().name
            info = IndexInfo(name, digest, size, passages, part.name, engine, files)
            _publish(target, info)
    except (OSError, ValueError, sqlite3.Error) as error:
        # The engine raises ValueError for every error of the disk.
        reason = getattr(error, "strerror", None) or one_line(str(error))
        raise InputError(
            f"{target} cannot be written ({reason}): make room, or name a place of your own."
        ) from None
    return info


def _check_place(path: str) -> None:
    """Check that an index can be written, before work is done for it; else an `InputError`."""
    folder = Path(path)
    if not folder.parent.is_dir():
        raise InputError(f"The folder {folder.parent} does not exist: make it, or name another.")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{path} is a file: name a place for the index, which is a folder.")
    if not os.access(folder if folder.exists() else folder.parent, os.W_OK):
        raise InputError(f"{path} cannot be written: name a place in a folder of your own.")
    other = [file.name for file in folder.glob("*") if file.name != _NOTE and not _is_part(file)]
    is_ours = True
    # An index of any version may be replaced, and one with a damaged note.
    with suppress(OSError, ValueError, RecursionError):
        note = json.loads((folder / _NOTE).read_bytes())
        is_ours = isinstance(note, dict) and "pearl_index" in note
    if other or not is_ours:
        raise InputError(f"{path} is a folder with other things in it: name one of its own.")


def _is_part(entry: Path) -> bool:
    return entry.name.startswith(_PART) and entry.is_dir()


@contextmanager
def _new_part(path: str) -> Iterator[Path]:
    """A new, empty part of an index, whose folder is made where there is none.

    The part is removed at the end, unless the note names it by then.
    """
    folder = Path(path)
    is_new = not folder.exists()
    folder.mkdir(exist_ok=True)
    part = folder / f"{_PART}{secrets.token_hex(6)}"
    part.mkdir()
    with (part / _LOCK).open("wb") as locked:
        lock(locked)
        try:
            yield part
        finally:
            named = ""
            with suppress(InputError):
                named = _read_note(path).part
            if named != part.name:
                rmtree(part, ignore_errors=True)
                with suppress(OSError):
                    if is_new:
                        folder.rmdir()


def _publish(path: str, info: IndexInfo) -> None:
    """Replace an index's part with a new one in one step; an `OSError` leaves the older one."""
    folder = Path(path)
    note = {
        "pearl_index": FORMAT,
        "corpus": {"name": info.corpus, "sha256": info.digest, "bytes": info.size},
        "passages": info.passages,
        "part": info.part,
        "engine": info.engine,
        "files": info.files,
    }
    mode = (folder / info.part / _LOCK).stat().st_mode & 0o777
    for name in info.files:
        # The engine lets only the owner read some files; an index is for all who read its folder.
        Path(folder, info.part, name).chmod(mode)
    with replacing(folder / _NOTE, folder / info.part) as file:
        file.write(json.dumps(note, indent=1).encode())
    for other in folder.iterdir():
        if _is_part(other) and other.name != info.part and not _under_way(other):
            rmtree(other, ignore_errors=True)


def _under_way(part: Path) -> bool:
    """Whether a running build is filling a part."""
    # A part without a lock file was made a moment ago, or is not one of ours.
    with suppress(OSError), (part / _LOCK).open("rb") as file:
        return lock(file) is not True
    return True


def _fill(part: Path, corpus: Corpus | Folder, progress: Callable[[int, int], None]) -> int:
    """Write every paragraph of a corpus into a part, and give their number."""
    from tantivy import Document

    count = 0
    with _writer(part) as writer, closing(_Ids(part / "ids.db")) as ids:
        for row in _usable(corpus, ids):
            document = Document()
            document.add_text("terms", " ".join(field_terms(row.title, row.text)))
            # JSON may hold lone surrogates, and passages are given back unchanged.
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
    """The engine's writer of a new index; at the end of the block its threads have ended."""
    from tantivy import Index, SchemaBuilder

    schema = SchemaBuilder()
    # No positions and no tokenizer of the engine's: the text is terms with spaces between them.
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


def _usable(corpus: Corpus | Folder, ids: _Ids) -> Iterator[CorpusParagraph]:
    """The paragraphs up to the first unusable line; all such lines are raised as a `LinesError`."""
    wrong: list[str] = []
    count = 0
    for row in corpus.rows():
        if problem := row if isinstance(row, InputError) else ids.problem(row, corpus.path):
            count += 1
            wrong += [str(problem)] if count <= NAMED else []
        elif isinstance(row, CorpusParagraph) and not wrong:
            yield row
    if wrong:
        raise LinesError(wrong, count - len(wrong))


class _Ids:
    """The ids seen so far, on disk, because a corpus may have more than memory holds."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._database = sqlite3.connect(file, isolation_level=None)
        self._database.executescript(
            "pragma journal_mode = off; pragma synchronous = off; pragma cache_size = -16000;"
            "create table ids (id blob primary key, line integer) without rowid; begin"
        )

    def problem(self, row: CorpusParagraph, path: str) -> InputError | None:
        """The error of a row whose id an earlier row has; None notes the id as taken."""
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
