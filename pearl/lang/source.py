"""Texts, places in them, and reading them.

They are read from files, from standard input, and from the folders grammar/, actions/ and plans/
that ship with Pearl, which are found in a checkout, a wheel and an sdist.
"""

from __future__ import annotations

import json
import os
import re
import sys
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache, cached_property, wraps
from importlib import import_module
from io import BufferedIOBase
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from pearl.lang.errors import InputError, UnreadableError
from pearl.lang.text import one_line, pattern, printable, text_digest

LONGEST_PATH = 300
"""The longest path, in characters: a longer text is taken to be the document itself."""


class Span(NamedTuple):
    """A half-open range of character offsets, ``start <= i < end``."""

    start: int
    end: int

    def moved(self, by: int) -> Span:
        """The range ``by`` characters further on."""
        return Span(self.start + by, self.end + by)


NOWHERE = Span(0, 0)


class TextKind(Enum):
    """What a text holds: a plan, or a library of actions."""

    PLAN = auto()
    LIBRARY = auto()


START = "\x1c"
"""Stands before the name of each of several documents that are one text: a file separator."""


class Place(NamedTuple):
    """Where something stands, as a person would say it.

    Args:
        document: the name of one of several documents; empty where there is only one.
        page: counted from 1; None where no form feed ends a page.
        line: of the document, counted from 1.
    """

    document: str
    page: int | None
    line: int

    def __str__(self) -> str:
        where = f"page {self.page}" if self.page else f"line {self.line}"
        return f"{self.document}, {where}" if self.document else where


_LINE_END, _WORD = pattern("\n"), pattern(r"\S+")
_ROW = pattern(r"(.+\.jsonl):(\d+)", re.DOTALL)
_MARKS = {"UTF-32": (b"\xff\xfe\0\0", b"\0\0\xfe\xff"), "UTF-16": (b"\xff\xfe", b"\xfe\xff")}
"""Byte order marks of encodings; of UTF-32 first, as one begins with a mark of UTF-16."""


@dataclass(frozen=True)
class Source:
    """A named text.

    Args:
        name: where it came from, as a person would write it (a path, ``-``).
        text: the characters.
    """

    name: str
    text: str

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in _LINE_END.finditer(self.text))]

    @cached_property
    def _words(self) -> tuple[str, array[int], array[int]]:
        """The text's words joined by single spaces, the offsets of the words in that, and their
        offsets in the text."""
        starts = array("q", (word.start() for word in _WORD.finditer(self.text)))
        words = self.text.split()
        offsets = array("q", accumulate((len(word) + 1 for word in words), initial=0))
        return " ".join(words), offsets, starts

    def find(self, words: str) -> Span | None:
        """Where words stand in the text: exactly, or else with other white space between them.
        None where they do not occur or are empty."""
        words = words.strip()
        at = self.text.find(words) if words else -1
        if at >= 0 or not words:
            return Span(at, at + len(words)) if words else None
        spelled = one_line(words)
        # Unlike a pattern's, the time of `find` does not grow with the product of both lengths.
        plain, spaced, starts = self._words
        at = plain.find(spelled)
        if at < 0:
            return None

        def place(offset: int) -> int:
            word = bisect_right(spaced, offset) - 1
            return starts[word] + offset - spaced[word]

        return Span(place(at), place(at + len(spelled) - 1) + 1)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the text, in hexadecimal digits."""
        return text_digest(self.text)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character offset, both counted from 1."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    @cached_property
    def documents(self) -> dict[str, Span]:
        """The span of each of several documents, with its name; empty where there is only one."""
        starts = [match.start() for match in re.finditer(START, self.text)]
        return {
            self.text[start + 3 : self.text.find("\n", start)]: Span(start, end)
            for start, end in pairwise([*starts, len(self.text)])
        }

    def named(self, name: str) -> Span | None:
        """The span of one of several documents, by its name, which may lack its ending; None
        where no document has the name, or more than one."""
        return self.documents.get(full_name(name, self.documents))

    def cited(self, offset: int) -> Place:
        """The document, page and line of a character offset."""
        start, end = self.text.rfind(START, 0, offset + 1), self.text.find(START, offset + 1)
        name = ""
        if start >= 0:
            name, _, _ = self.text[start + 1 :].partition("\n")
            start += len(name) + 3
        start, end = max(start, 0), end if end >= 0 else len(self.text)
        paged = self.text.find("\f", start, end) >= 0
        page = self.text.count("\f", start, offset) + 1 if paged else None
        line = self.position(offset)[0] - self.position(start)[0] + 1
        return Place(printable(name.removeprefix("# ")), page, max(line, 1))

    def place(self, span: Span) -> tuple[int, int, int, int]:
        """Line and column of a span's start and of its end, all counted from 1."""
        return (*self.position(span.start), *self.position(span.end))

    def line(self, number: int) -> str:
        """The text of a line counted from 1, without its line ending."""
        start = self._starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)].rstrip("\r")

    @property
    def row(self) -> tuple[str, int] | None:
        """File and line of a text that is one row of a ``.jsonl`` file.

        Lines and columns in the text are no places in that file.
        """
        match = _ROW.fullmatch(self.name)
        return (match[1], int(match[2])) if match else None

    def at(self, span: Span) -> str:
        """The text a span covers."""
        return self.text[span.start : span.end]


_Function = TypeVar("_Function", bound=Callable[..., Any])


def cached_by_digest(size: int) -> Callable[[_Function], _Function]:
    """Caches the last values of a function by the digest of the text that it takes first, so that
    the cache does not hold long texts, as that of `lru_cache` does.

    Args:
        size: how many values are cached.
    """

    def decorate(function: _Function) -> _Function:
        known: OrderedDict[tuple[Any, ...], Any] = OrderedDict()

        @wraps(function)
        def cached(text: str | Source, *others: Any) -> Any:  # noqa: ANN401 - as the function
            key = (text_digest(text) if isinstance(text, str) else text.digest, *others)
            with suppress(KeyError):
                return known[key]
            value = known[key] = function(text, *others)
            if len(known) > size:
                known.popitem(last=False)
            return value

        return cast("_Function", cached)

    return decorate


def full_name(name: str, names: Collection[str]) -> str:
    """The full name of the document that a name means, which may lack its ending; empty where it
    means none, or more than one."""
    bare = [full for full in names if os.path.splitext(full)[0] == name]
    return name if name in names else bare[0] if len(bare) == 1 else ""


def read_source(path: str, noun: str = "file", *, rows: bool = False) -> Source:
    """Read UTF-8 text from a path, or from standard input when the path is ``-``.

    Args:
        path: a file's path, or ``-``.
        noun: what messages call it ("document", "plan").
        rows: as `decode` takes it.

    Raises:
        InputError: missing, a directory, unreadable, binary, not UTF-8, or empty.
    """
    return decode(path, read_bytes(path, noun), noun, rows=rows)


LARGEST_PLAN = 4_000_000
"""The most characters of a plan or library: the checker takes some 150 bytes of memory for each."""


def read_plan(path: str, noun: str = "plan") -> Source:
    """Read a plan or a library, as `read_source` reads a text.

    Raises:
        InputError: as there, or it has too many characters.
    """
    source = read_source(path, noun)
    check_size(source.text, path)
    return source


def check_size(text: str, where: str) -> None:
    """Check that a plan or a library has at most `LARGEST_PLAN` characters.

    Args:
        text: the plan or the library.
        where: its file, or file and line, for messages.

    Raises:
        InputError: it has more.
    """
    if len(text) > LARGEST_PLAN:
        shown = "Standard input" if where == "-" else where
        raise InputError(
            f"{shown}: a plan or a library has at most {LARGEST_PLAN:,} characters, and this one "
            f"has {len(text):,}: split it."
        )


def read_bytes(path: str, noun: str) -> bytes:
    """The bytes of a file, or of standard input, as `read_source` takes them.

    Raises:
        InputError: missing, a directory, unreadable, or a stream that is too long.
    """
    if path != "-":
        with _readable(path, noun), Path(path).open("rb") as file:
            return file.read() if os.path.isfile(path) else _read_stream(file, path)
    try:
        return _read_stream(cast("BufferedIOBase", sys.stdin.buffer), "Standard input")
    except (AttributeError, OSError, ValueError):
        # Python has no stream at all where the shell gave none.
        raise InputError(f"Standard input is closed: pipe the {noun} in, or name a file.") from None


LARGEST_STREAM = 256 << 20
"""The most bytes that are read of a pipe or a device, which may have no end."""


def _read_stream(stream: BufferedIOBase, name: str) -> bytes:
    """All that comes; an `InputError` where that is more than `LARGEST_STREAM`."""
    read = bytearray()
    # `read` would ask a terminal for more after the first end of input.
    while piece := stream.read1(1 << 20):
        read += piece
        if len(read) > LARGEST_STREAM:
            raise InputError(f"{name} has more than {LARGEST_STREAM >> 20} MB: name a file.")
    return bytes(read)


def read_lines(path: str) -> Iterator[tuple[str, bytes]]:
    """The lines of a file of plans that are not blank, each with its file and line, one at a time.

    Args:
        path: the file.

    Raises:
        InputError: missing, a directory, unreadable, UTF-16 or UTF-32, or empty.
    """
    with _readable(path, "plan"), Path(path).open("rb") as file:
        blank = True
        for number, line in enumerate(file, 1):
            if number == 1 and marked(line):
                decode(path, line, "plan")
            if line.strip():
                blank = False
                yield f"{path}:{number}", line
        if blank:
            decode(path, b"", "plan")


@contextmanager
def _readable(path: str, noun: str) -> Iterator[None]:
    """Turns what keeps a file from being read into an `InputError`."""
    try:
        yield
    except IsADirectoryError:
        raise InputError(f"{path} is a directory: name a file in it.") from None
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: check the path of the {noun}.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"{path} cannot be read ({reason}): check the path of the {noun}."
        ) from None


def files_below(folder: str | Path) -> tuple[list[Path], list[UnreadableError]]:
    """The files of a folder and of those below it, in order, and which folders cannot be read.

    They include links that lead nowhere and files that cannot be looked at, but no pipe or device.

    Args:
        folder: where to look; links to other folders are not followed.
    """
    found: list[Path] = []
    shut: list[UnreadableError] = []

    def refused(error: OSError) -> None:
        message = (
            f"{error.filename} cannot be read ({error.strerror}): change its permissions, or name "
            "the files to read."
        )
        shut.append(UnreadableError(message, str(error.filename)))

    for home, _, names in os.walk(folder, onerror=refused):
        found += (Path(home, name) for name in names)
    files = [file for file in found if os.path.isfile(file) or not os.path.exists(file)]
    return sorted(files), shut


_FORMS = {
    b"%PDF-": "a PDF",
    b"PK\x03\x04": "a Word, EPUB or other packed file",
    b"\xd0\xcf\x11\xe0": "a file of Microsoft Office",
    b"{\\rtf": "a file in rich text format",
}
"""What a file that is no text is, by its first bytes."""

_SHEETS = (b"xl/workbook", b"opendocument.spreadsheet", b"W\0o\0r\0k\0b\0o\0o\0k\0")
"""Bytes that mark a packed file or a file of Microsoft Office as a spreadsheet."""


def marked(data: bytes) -> str:
    """``UTF-16`` or ``UTF-32``, if a text's bytes begin with its mark; else empty."""
    return next((name for name, marks in _MARKS.items() if data.startswith(marks)), "")


def decode(name: str, data: bytes, noun: str, *, rows: bool = False) -> Source:
    """The text of a file's bytes.

    Args:
        name: the file, for messages; ``-`` for standard input.
        data: its bytes.
        noun: what messages call it.
        rows: whether it is JSON lines. Then bytes that are not UTF-8 become lone surrogates, for
            which `check_utf_8` refuses the row that has them.

    Raises:
        InputError: binary, not UTF-8, or empty.
    """
    shown = "Standard input" if name == "-" else name
    if form := marked(data):
        raise InputError(f"{shown} is {form}: convert it, with iconv -f {form} -t UTF-8.")
    for start, kind in _FORMS.items():
        if data.startswith(start):
            is_sheet = any(map(data.__contains__, _SHEETS)) and kind != "a PDF"
            kind, form = ("a spreadsheet", "CSV, in UTF-8,") if is_sheet else (kind, "UTF-8 text")
            raise InputError(f"{shown} is {kind}, and no text: save it as {form} first.")
    if b"\x00" in data:
        raise InputError(f"{shown} is a binary file: give the {noun} as UTF-8 text.")
    try:
        text = data.decode("utf-8-sig", "surrogateescape" if rows else "strict")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{shown} is not UTF-8 (byte {error.start} is 0x{data[error.start]:02x}): "
            f"convert it, for instance with iconv -f WINDOWS-1252 -t UTF-8."
        ) from None
    if not text.strip():
        raise InputError(f"{shown} is empty: give one with text in it.")
    return Source(name, text)


def read_toml(text: str, name: str) -> dict[str, Any]:
    """What a text in TOML holds.

    Args:
        text: the text.
        name: the file it comes from, for messages.

    Raises:
        InputError: the text is no TOML.
    """
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem = one_line(str(error)).rstrip(".")
    except ValueError:
        problem = "it has a number of too many digits"
    except RecursionError:
        problem = "it is nested too deep"
    raise InputError(f"{name} is not TOML: {problem}.")


def _shipped(folder: str) -> Path:
    """A folder that ships with Pearl."""
    try:
        return Path(import_module(f"pearl.{folder}").__path__[0])
    except ModuleNotFoundError:
        # Pearl runs from its source tree, where these folders are no packages.
        return Path(__file__).parents[2] / folder


@cache
def _shipped_files(folder: str, pattern: str) -> tuple[Path, ...]:
    """Files that ship with Pearl, in name order."""
    return tuple(sorted(_shipped(folder).glob(pattern)))


def grammar_table(name: str) -> dict[str, Any]:
    """The LALR(1) table of a grammar, such as ``plan``: see `pearl.lang.grammar`."""
    table: dict[str, Any] = json.loads((_shipped("grammar") / f"{name}.json").read_bytes())
    return table


def shipped_actions() -> dict[str, Path]:
    """The action libraries that ship with Pearl, by name."""
    return {file.stem: file for file in _shipped_files("actions", "*.actions")}


def plan_folders() -> list[str]:
    """The names of the folders of plans that ship with Pearl."""
    return sorted({file.parent.name for file in _shipped_files("plans", "*/*.plan")})


def shipped_plans(name: str = "demos") -> list[Path]:
    """The demonstration plans of a folder that ships with Pearl, in name order."""
    return sorted((_shipped("plans") / name).glob("*.plan"))
