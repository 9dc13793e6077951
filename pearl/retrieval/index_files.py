"""The files of a search: a corpus, which is read a line at a time, and an index of it on disk.

A corpus is JSON lines with ``id``, ``text`` and, where there is one, ``title``; or a folder of
documents.

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
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import file_digest, sha256
from pathlib import Path
from typing import IO

from pearl.lang.documents import files_of as documents_of
from pearl.lang.documents import read_document
from pearl.lang.source import InputError, decode, replacing, row_id
from pearl.lang.text import printable
from pearl.retrieval.retriever import DocumentRetriever

FORMAT = 1
"""Goes up with whatever makes older indexes answer differently: the terms, their weights,
the files."""

_NOTE = "index.json"
_PART = "part-"
_LOCK = "building"


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """What an index says of itself.

    Args:
        corpus: the name of the file it was made from.
        digest: that file's SHA-256.
        size: that file's bytes.
        passages: how many it holds.
        part: the folder within it that holds them.
        engine: the version of tantivy that wrote them.
        files: the part's files, each with its bytes and its SHA-256.
        fresh: False where it was there already when it was to be built.
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
    """Read what an index says of itself, and see that its files are there.

    Args:
        path: the index.

    Raises:
        InputError: there is none, it is of another version, or it is damaged;
            of damage, only missing files and wrong sizes are seen.
    """
    info = _read_note(path)
    if not Path(path, info.part).is_dir():
        # A build may have put another part in its place since.
        info = _read_note(path)
    for name, (size, _) in info.files.items():
        try:
            actual = Path(path, info.part, name).stat().st_size
        except OSError:
            raise damaged(path, f"{name} is missing") from None
        if actual != size:
            raise damaged(path, f"{name} has {actual:,} bytes and not {size:,}")
    return info


def check_index(path: str) -> IndexInfo:
    """As `read_info`, and every byte is read and compared with what was written."""
    info = read_info(path)
    for name, (_, digest) in info.files.items():
        try:
            actual = digest_of(str(Path(path, info.part, name)))
        except OSError:
            actual = ""
        if actual != digest:
            raise damaged(path, f"{name} has changed since it was written")
    return info


def damaged(path: str, reason: str) -> InputError:
    """The error for an index that cannot be used any more, with what is wrong with it."""
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
        raise damaged(path, f"{_NOTE} is not JSON") from None
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
            # A note that somebody else wrote leads nowhere but into its own folder.
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
        raise damaged(path, f"{_NOTE} lacks what it should say") from None


def check_place(path: str) -> None:
    """See that an index can be put somewhere, before work is done for it; else an `InputError`."""
    folder = Path(path)
    if not folder.parent.is_dir():
        raise InputError(f"The folder {folder.parent} does not exist: make it, or name another.")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{path} is a file: name a place for the index, which is a folder.")
    if not os.access(folder if folder.exists() else folder.parent, os.W_OK):
        raise InputError(f"{path} cannot be written: name a place in a folder of your own.")
    other = [file.name for file in folder.glob("*") if file.name != _NOTE and not _is_part(file)]
    ours = True
    if is_index(path):
        # Of whatever version; a damaged one is replaced too.
        with suppress(OSError, ValueError, RecursionError):
            note = json.loads((folder / _NOTE).read_bytes())
            ours = isinstance(note, dict) and "pearl_index" in note
    if other or not ours:
        raise InputError(f"{path} is a folder with other things in it: name one of its own.")


def _is_part(entry: Path) -> bool:
    return entry.name.startswith(_PART) and entry.is_dir()


@contextmanager
def new_part(path: str) -> Iterator[Path]:
    """A part to fill, in a folder that is made where there is none, or an `OSError`.

    Unless `publish` names it by then, it goes at the end.
    """
    folder = Path(path)
    is_new = not folder.exists()
    folder.mkdir(exist_ok=True)
    part = folder / f"{_PART}{secrets.token_hex(6)}"
    part.mkdir()
    with (part / _LOCK).open("wb") as lock:
        _lock(lock)
        try:
            yield part
        finally:
            named = ""
            with suppress(InputError):
                named = _read_note(path).part
            if named != part.name:
                shutil.rmtree(part, ignore_errors=True)
                with suppress(OSError):
                    if is_new:
                        folder.rmdir()


def publish(path: str, info: IndexInfo) -> None:
    """Put a part in the place of the older one, in one step, or leave that with an `OSError`."""
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
        # The engine keeps some to their owner; an index is for whoever may read its folder.
        Path(folder, info.part, name).chmod(mode)
    with replacing(folder / _NOTE, folder / info.part) as file:
        file.write(json.dumps(note, indent=1).encode())
    for other in folder.iterdir():
        if _is_part(other) and other.name != info.part and not _under_way(other):
            shutil.rmtree(other, ignore_errors=True)


def files_of(part: Path) -> dict[str, tuple[int, str]]:
    """A part's files, each with its bytes and its SHA-256, or an `OSError`."""
    files = [file for file in sorted(part.iterdir()) if file.is_file() and file.stat().st_size]
    return {file.name: (file.stat().st_size, digest_of(str(file))) for file in files}


def _under_way(part: Path) -> bool:
    """Whether a build that lives is filling a part."""
    try:
        with (part / _LOCK).open("rb") as lock:
            return not _lock(lock)
    except OSError:
        # It was made a moment ago, or is not one of ours.
        return True


def _lock(file: IO[bytes]) -> bool:
    """Lock a file for as long as it is open; False where another process has."""
    try:
        import fcntl
    except ImportError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


_LONGEST = 1 << 24
"""Bytes of a line; a longer one is no paragraph."""

_LONGEST_ID = 512


@dataclass(frozen=True, slots=True)
class Row:
    """A paragraph of a corpus.

    Args:
        line: its line in the file, counted from 1.
        end: bytes of the file up to its end.
        id: its own.
        title: what it stands under; may be empty.
        text: the paragraph.
    """

    line: int
    end: int
    id: str
    title: str
    text: str


class Corpus:
    """A file of paragraphs, read once and a line at a time.

    Args:
        path: the file.

    Raises:
        InputError: it is no file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._digest = sha256()
        self._end = 0
        file = Path(path)
        if not file.exists():
            raise InputError(f"{path} does not exist: check the corpus' path.")
        self.size = file.stat().st_size

    @property
    def extent(self) -> tuple[int, str]:
        """The bytes that have been read, and their SHA-256 in hexadecimal digits."""
        return self._end, self._digest.hexdigest()

    def digest(self) -> str:
        """The SHA-256 of the whole file, in hexadecimal digits, or an `OSError`."""
        return digest_of(self.path)

    def rows(self) -> Iterator[Row | InputError]:
        """Every paragraph, or why a line is none; an `InputError` where the file cannot be read."""
        line = 0
        try:
            with Path(self.path).open("rb") as opened:
                while data := self._next(opened):
                    line += 1
                    if data.strip():
                        try:
                            yield _parsed(data, f"{self.path}:{line}", line, self._end)
                        except InputError as error:
                            yield error
                    while len(data) == _LONGEST and not data.endswith(b"\n"):
                        # The rest of a line that is too long.
                        data = self._next(opened)
        except OSError as error:
            raise InputError(
                f"{self.path} cannot be read ({error.strerror}): check the corpus' path."
            ) from None

    def _next(self, opened: IO[bytes]) -> bytes:
        data = opened.readline(_LONGEST)
        self._end += len(data)
        self._digest.update(data)
        return data


class Folder:
    """A folder of documents, or one, as a corpus: a paragraph's id says its document, page and
    number.

    Args:
        path: the folder, or the document.

    Raises:
        InputError: it has no document, or too many.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._files = documents_of(path)
        self._home = path if Path(path).is_dir() else Path(path).parent
        self.size = sum(Path(file).stat().st_size for file in self._files)

    def digest(self) -> str:
        """A SHA-256 of the documents' paths and bytes, in hexadecimal digits, or an `OSError`."""
        return sha256(
            json.dumps([(file, digest_of(file)) for file in self._files]).encode()
        ).hexdigest()

    @property
    def extent(self) -> tuple[int, str]:
        """The bytes of all documents, and their digest."""
        return self.size, self.digest()

    def rows(self) -> Iterator[Row | InputError]:
        """Every paragraph, or why a document cannot be read."""
        line = end = 0
        for file in self._files:
            name = printable(os.path.relpath(file, self._home))
            try:
                source = read_document(file)
            except InputError as error:
                yield error
                continue
            end += Path(file).stat().st_size
            for paragraph in DocumentRetriever(source).paragraphs:
                line += 1
                page = source.cited(paragraph.span.start).page
                where = f", page {page}" if page else ""
                title = " / ".join(filter(None, (name, paragraph.title)))
                id = f"{name}{where}, paragraph {paragraph.id}"
                yield Row(line, end, id, title, source.at(paragraph.span))


def digest_of(path: str) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal digits, or an `OSError`."""
    with Path(path).open("rb") as opened:
        return file_digest(opened, sha256).hexdigest()


def _parsed(data: bytes, name: str, line: int, end: int) -> Row:
    if len(data) >= _LONGEST:
        raise InputError(f"{name} is longer than 16 MB: give one paragraph a line.")
    try:
        row = json.loads(decode(name, data, "corpus").text)
    except (ValueError, RecursionError):
        raise InputError(f"{name} is not JSON: give one object a line.") from None
    if not isinstance(row, dict):
        raise InputError(f'{name} is no object: write {{"id": …, "title": …, "text": …}}.')
    title, text = row.get("title"), row.get("text")
    if title is not None and not isinstance(title, str):
        raise InputError(f"{name}: title is to be a text.")
    id = row_id(row, name, "paragraph")
    if len(id) > _LONGEST_ID:
        raise InputError(f"{name} has an id of {len(id):,} characters: {_LONGEST_ID} will do.")
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{name} has no text: give each paragraph its own, or leave it out.")
    return Row(line, end, id, title or "", text)
