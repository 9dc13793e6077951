"""Text, the places in it, and where it is read from.

That is a file, standard input, a line of a file of JSON lines, or one of the folders grammar/,
actions/ and plans/ that ship with Pearl, found alike in a checkout, a wheel and an sdist.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache, cached_property
from importlib import import_module
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from pearl.lang.errors import InputError, install_command, refuse
from pearl.lang.text import one_line, pattern, printable, text_digest

if TYPE_CHECKING:
    from pandas import DataFrame


LONGEST_PATH = 300
"""Characters above which a document is taken to be the text itself."""


class Span(NamedTuple):
    """A half-open range of character offsets, ``start <= i < end``."""

    start: int
    end: int

    def moved(self, by: int) -> Span:
        """The range so many characters further on."""
        return Span(self.start + by, self.end + by)


NOWHERE = Span(0, 0)


class TextKind(Enum):
    """What a text holds: a plan, or a library of actions."""

    PLAN = auto()
    LIBRARY = auto()


START = "\x1c"
"""Stands before the name of each of several documents that are one text: a file separator."""


class Place(NamedTuple):
    """Where something stands, as it is told to a person.

    Args:
        document: which of several documents; empty where there is one.
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
UTF_16 = (b"\xff\xfe", b"\xfe\xff")


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
        """The text's words with a space between them, where each stands there, and in the text."""
        starts = array("q", (word.start() for word in _WORD.finditer(self.text)))
        words = self.text.split()
        return (
            " ".join(words),
            array("q", accumulate((len(w) + 1 for w in words), initial=0)),
            starts,
        )

    def find(self, words: str) -> Span | None:
        """Where words stand in the text, to the letter or else with other white space between
        them; None where they do not, or there are none."""
        words = words.strip()
        at = self.text.find(words) if words else -1
        if at >= 0 or not words:
            return Span(at, at + len(words)) if words else None
        spelled = one_line(words)
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
        """Where each of several documents stands, from its name on; none where there is one."""
        starts = [match.start() for match in re.finditer(START, self.text)]
        return {
            self.text[start + 3 : self.text.find("\n", start)]: Span(start, end)
            for start, end in pairwise([*starts, len(self.text)])
        }

    def named(self, name: str) -> Span | None:
        """Where one of several documents stands, by its name, which may lack its ending; None
        where no document or more than one is called so."""
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


def full_name(name: str, names: Collection[str]) -> str:
    """Which of several documents' names is meant by one that may lack its ending; empty where none
    is, or more than one."""
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


def read_bytes(path: str, noun: str) -> bytes:
    """The bytes of a file, or of standard input, as `read_source` takes them.

    Raises:
        InputError: missing, a directory, or unreadable.
    """
    if path != "-":
        with _readable(path, noun):
            return Path(path).read_bytes()
    try:
        return sys.stdin.buffer.read()
    except (AttributeError, OSError, ValueError):
        # Python has no stream at all where the shell gave none.
        raise InputError(f"Standard input is closed: pipe the {noun} in, or name a file.") from None


def read_lines(path: str, noun: str) -> Iterator[tuple[str, bytes]]:
    """The lines of a file that are not blank, each with its file and line, one at a time.

    Args:
        path: the file.
        noun: what messages call it.

    Raises:
        InputError: missing, a directory, unreadable, UTF-16, or empty.
    """
    with _readable(path, noun), Path(path).open("rb") as file:
        blank = True
        for number, line in enumerate(file, 1):
            if number == 1 and line.startswith(UTF_16):
                decode(path, line, noun)
            if line.strip():
                blank = False
                yield f"{path}:{number}", line
        if blank:
            decode(path, b"", noun)


@contextmanager
def _readable(path: str, noun: str) -> Iterator[None]:
    """Says what keeps a file from being read."""
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


_FORMS = {
    b"%PDF-": "a PDF",
    b"PK\x03\x04": "a Word, EPUB or other packed file",
    b"\xd0\xcf\x11\xe0": "a file of Microsoft Office",
    b"{\\rtf": "a file in rich text format",
}
"""What a file that is no text is, by its first bytes."""

_SHEETS = (b"xl/workbook", b"opendocument.spreadsheet", b"W\0o\0r\0k\0b\0o\0o\0k\0")
"""What stands in the spreadsheets among them."""


def decode(name: str, data: bytes, noun: str, *, rows: bool = False) -> Source:
    """The text of what was read from a place.

    Args:
        name: the place, for messages.
        data: its bytes.
        noun: what messages call it.
        rows: whether it is JSON lines. Bytes that are not UTF-8 are kept as lone surrogates then,
            for `check_utf_8` to refuse the row that has them.

    Raises:
        InputError: binary, not UTF-8, or empty.
    """
    shown = "Standard input" if name == "-" else name
    if data.startswith(UTF_16):
        raise InputError(f"{shown} is UTF-16: convert it, with iconv -f UTF-16 -t UTF-8.")
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


def check_utf_8(text: str, where: str) -> None:
    """See that a text that was decoded as ``rows`` was UTF-8.

    Raises:
        InputError: it was not.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        decode(where, text.encode("utf-8", "surrogateescape"), "row")


def read_rows(path: str, noun: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of a file of JSON lines, with its file and line, for messages.

    Args:
        path: the file, or ``-`` for standard input.
        noun: what messages call it.

    Raises:
        InputError: the file cannot be read, or, past the last line, one is no object.
    """
    problems: list[InputError] = []
    for where, line in lines_of(read_source(path, noun, rows=True)):
        try:
            row = read_row(line, where)
        except InputError as error:
            problems.append(error)
        else:
            yield where, row
    refuse(problems)


def lines_of(source: Source) -> Iterator[tuple[str, str]]:
    """The lines of a text that are not blank, each with its place."""
    # JSON allows line ends within its texts that `splitlines` would split at.
    for number, line in enumerate(source.text.split("\n"), 1):
        if line.strip():
            yield f"{source.name}:{number}", line


def read_row(line: str, where: str) -> dict[str, Any]:
    """The object of one line.

    Args:
        line: its JSON.
        where: its file and line, for messages.

    Raises:
        InputError: it is none.
    """
    row = _read_json(line, where)
    if not isinstance(row, dict):
        raise InputError(f"{where} is no object: give one object a line.")
    return row


def _read_json(line: str, where: str, otherwise: str = "") -> Any:  # noqa: ANN401 - any JSON
    check_utf_8(line, where)
    try:
        return json.loads(line, parse_constant=_nothing)
    except (ValueError, RecursionError):
        raise InputError(f"{where} is not JSON: give one object a line{otherwise}.") from None


def read_toml(text: str, name: str) -> dict[str, Any]:
    """What a text in TOML holds.

    Args:
        text: the text.
        name: the file that it is of, for messages.

    Raises:
        InputError: it is no TOML.
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


def _nothing(constant: str) -> None:
    """None for NaN, which pandas writes for what a table lacks; Infinity is a `ValueError`."""
    if constant != "NaN":
        raise ValueError


def row_id(row: dict[str, Any], where: str, noun: str) -> str:
    """What a row is named by: its ``id``, a text or a whole number.

    Args:
        row: an object of a file of JSON lines.
        where: its file and line, for messages.
        noun: what a row is.

    Raises:
        InputError: it has none that can be printed.
    """
    name = row.get("id")
    if isinstance(name, int) and not isinstance(name, bool):
        return str(name)
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise InputError(f"{where} has no id: give each {noun} one of its own.")
    return name


def refuse_same(output: str, read: Iterable[str | Path]) -> None:
    """Make sure that a file to be written takes the place of none that is read.

    Args:
        output: the file, by whatever path.
        read: files that are read, likewise; one may be no path at all.

    Raises:
        InputError: it does.
    """
    target = Path(output)
    for path in read:
        try:
            same = target.resolve() == Path(path).resolve() or target.samefile(path)
        except (OSError, ValueError, RuntimeError):
            # One of them is not there, or is no path.
            continue
        if same and target.exists():
            raise InputError(f"{output} is what is read: name another file to write.")


def check_writable(output: str, read: Iterable[str | Path] = ()) -> None:
    """Make sure that a file can be written, before work is done for it.

    Args:
        output: its path.
        read: as `refuse_same` takes it.

    Raises:
        InputError: it cannot.
    """
    refuse_same(output, read)
    target = Path(output)
    try:
        target.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        # A link that leads to itself, or a name that is too long.
        raise unwritable(output, error) from None
    if target.is_dir():
        raise InputError(f"{output} is a directory: name a file in it.")
    if not target.parent.is_dir():
        raise InputError(f"The folder {target.parent} does not exist: make it, or name another.")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise InputError(f"{output} cannot be written: name a file in a folder of your own.")


@contextmanager
def replacing(path: Path, folder: Path | None = None) -> Iterator[BinaryIO]:
    """A file that takes the place of ``path`` when the block ends well: whole, or not at all.

    Args:
        path: what it is to be; a link is followed.
        folder: where it is written meanwhile, on the same disk; by default beside ``path``.

    Raises:
        OSError: it cannot be written; ``path`` is as it was.
    """
    target = path.resolve()
    if target.exists() and not target.is_file() and not target.is_dir():
        # Whoever may write to /dev would lose what all programs write to.
        raise OSError(errno.EEXIST, "it is a device or a pipe")
    part = (folder or target.parent) / f".{target.name[:40]}.{os.urandom(4).hex()}.part"
    try:
        with part.open("xb") as file:
            if target.exists():
                part.chmod(target.stat().st_mode & 0o777)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def write(path: str, text: str | bytes) -> None:
    """Write a file so that it is there as a whole or as it was.

    Raises:
        InputError: it cannot be written.
    """
    data = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    target = Path(path)
    try:
        if target.exists() and not target.is_file():
            # A pipe or a device is written to, not replaced; a directory says that it is one.
            target.write_bytes(data)
        else:
            with replacing(target) as file:
                file.write(data)
    except OSError as error:
        raise unwritable(path, error) from None


def unwritable(
    path: str | Path, error: OSError, instead: str = "a file in a folder of your own"
) -> InputError:
    """That something cannot be written, why, and what to do.

    Args:
        path: what was named.
        error: what came of it.
        instead: what to name, where there is room.
    """
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    advice = "make room, and run it again" if full else f"name {instead}"
    return InputError(f"{path} cannot be written ({error.strerror}): {advice}.")


def as_frame(rows: Iterable[Mapping[str, Any]]) -> DataFrame:
    """Rows as a table of pandas; what is below a key is a column ``key.inner``.

    Raises:
        InputError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise InputError(f"A frame needs pandas: {install_command('pandas')}.") from None
    every = [*map(dict, rows)]
    # What is an object in some rows has a column for each of its fields, and none of its own.
    objects = {key for row in every for key, value in row.items() if isinstance(value, Mapping)}
    return pandas.json_normalize(
        [{k: v for k, v in row.items() if v is not None or k not in objects} for row in every]
    )


class Tabled(ABC):
    """What a notebook shows as a table, where pandas is installed."""

    __slots__ = ()

    @abstractmethod
    def frame(self) -> DataFrame:
        """The table, as `as_frame` makes it."""

    def _repr_html_(self) -> str | None:
        with suppress(InputError):
            shown: str = self.frame()._repr_html_()
            return shown
        return None


def _shipped(folder: str) -> Path:
    """A folder that ships with Pearl."""
    try:
        return Path(import_module(f"pearl.{folder}").__path__[0])
    except ModuleNotFoundError:
        # Python runs in the source tree, which stands before the installed package.
        return Path(__file__).parents[2] / folder


@cache
def _shipped_files(folder: str, pattern: str) -> tuple[Path, ...]:
    """Files that ship with Pearl, in name order: they stay what they are while it runs."""
    return tuple(sorted(_shipped(folder).glob(pattern)))


def grammar_table(name: str) -> dict[str, Any]:
    """The table of a grammar, as ``grammar_table("plan")``: see `pearl.lang.grammar`."""
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


def plan_row(line: str, name: str, otherwise: str = "") -> dict[str, Any]:
    """A row that has a plan.

    Args:
        line: its JSON.
        name: its file and line, for messages.
        otherwise: what could be given in place of such rows, as the end of a sentence.

    Raises:
        InputError: it is no such object.
    """
    row = _read_json(line, name, otherwise)
    if isinstance(row, dict) and row.get("plan") and not isinstance(row["plan"], str):
        raise InputError(f"{name}: plan is to be a text.")
    if not isinstance(row, dict) or not isinstance(row.get("plan"), str):
        raise InputError(f'{name} has no "plan": give a row such as {{"plan": "1. …"}}.')
    return row
