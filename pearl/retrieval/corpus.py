"""A corpus: JSON lines with ``id``, ``text`` and, where there is one, ``title``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO

from pearl.lang.source import InputError, row_id

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
        if file.is_dir():
            raise InputError(f"{path} is a directory: name a corpus in it, as JSON lines.")
        if not file.exists():
            raise InputError(f"{path} does not exist: check the corpus' path.")
        self.size = file.stat().st_size

    @property
    def seen(self) -> tuple[int, str]:
        """The bytes that have been read, and their SHA-256 in hexadecimal digits."""
        return self._end, self._digest.hexdigest()

    def rows(self) -> Iterator[Row | InputError]:
        """Every paragraph, and for every line that is none the reason.

        Raises:
            InputError: the file cannot be read.
        """
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


def digest_of(path: str) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal digits.

    Raises:
        OSError: it cannot be read.
    """
    found = sha256()
    with Path(path).open("rb") as opened:
        while data := opened.read(1 << 20):
            found.update(data)
    return found.hexdigest()


def _parsed(data: bytes, name: str, line: int, end: int) -> Row:
    if len(data) >= _LONGEST:
        raise InputError(f"{name} is longer than 16 MB: give one paragraph a line.")
    try:
        row = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InputError(
            f"{name} is not UTF-8: convert the file, for instance with iconv -f LATIN1 -t UTF-8."
        ) from None
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
