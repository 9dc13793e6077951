"""A corpus: JSON lines with ``id``, ``text`` and optionally ``title``; or documents."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import IO

from pearl.lang.errors import InputError
from pearl.lang.rows import json_problem, row_id
from pearl.lang.source import decode
from pearl.lang.text import printable
from pearl.retrieval.converters import ENDINGS, files_of, read_document
from pearl.retrieval.retriever import DocumentRetriever

_LONGEST = 1 << 24
"""The most bytes of a line; a longer one is no paragraph."""

_LONGEST_ID = 512


@dataclass(frozen=True, slots=True)
class CorpusParagraph:
    """A paragraph of a corpus.

    Args:
        line: its line in the file, counted from 1.
        end: the number of bytes of the file up to the end of the line.
        id: names it in the corpus.
        title: the title it stands under; may be empty.
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
        InputError: it does not exist, or is a device, which may have no end.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._digest = sha256()
        self._end = 0
        file = Path(path)
        if not file.exists():
            raise InputError(f"{path} does not exist: check the corpus' path.")
        if file.is_char_device() or file.is_block_device():
            raise InputError(f"{path} is a device: name a file.")
        self.size = file.stat().st_size

    @property
    def extent(self) -> tuple[int, str]:
        """The number of bytes that were read, and their SHA-256 in hexadecimal digits."""
        return self._end, self._digest.hexdigest()

    def digest(self) -> str:
        """The SHA-256 of the whole file, in hexadecimal digits, or an `OSError`."""
        return digest_of(self.path)

    def rows(self) -> Iterator[CorpusParagraph | InputError]:
        """Every paragraph, or the error of a line; an unreadable file raises an `InputError`."""
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
    """A folder of documents, or one document, as a corpus. A paragraph's id names its document,
    page and number.

    Args:
        path: the folder, or the document.

    Raises:
        InputError: it has no document, or too many.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._files = files_of(path)
        self._home = path if Path(path).is_dir() else Path(path).parent
        self.size = sum(Path(file).stat().st_size for file in self._files)

    def digest(self) -> str:
        """A SHA-256 of the documents' paths and bytes, in hexadecimal digits, or an `OSError`."""
        files = [(file, digest_of(file)) for file in self._files]
        return sha256(json.dumps(files).encode()).hexdigest()

    @property
    def extent(self) -> tuple[int, str]:
        """The number of bytes of all documents, and their digest."""
        return self.size, self.digest()

    def rows(self) -> Iterator[CorpusParagraph | InputError]:
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
                yield CorpusParagraph(line, end, id, title, source.at(paragraph.span))


def open_corpus(path: str) -> Corpus | Folder:
    """A corpus of documents, if the path names a folder or a document; else one of JSON lines.

    Raises:
        InputError: as `Corpus` and `Folder`.
    """
    file = Path(path)
    if file.is_dir():
        return Folder(path)
    if file.suffix.lower() in ENDINGS and file.is_file():
        # A file of JSON lines is no document, whatever its name.
        with file.open("rb") as opened:
            if not opened.read(1024).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
                return Folder(path)
    return Corpus(path)


def digest_of(path: str) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal digits, or an `OSError`."""
    with Path(path).open("rb") as opened:
        return file_digest(opened, sha256).hexdigest()


def _parsed(data: bytes, name: str, line: int, end: int) -> CorpusParagraph:
    if len(data) >= _LONGEST:
        raise InputError(f"{name} is longer than 16 MB: give one paragraph a line.")
    try:
        row = json.loads(decode(name, data, "corpus").text)
    except (ValueError, RecursionError) as error:
        raise json_problem(error, name) from None
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
    return CorpusParagraph(line, end, id, title or "", text)
