"""Rows: the objects of a file of JSON lines, and tables of them."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pearl.lang.errors import InputError, install_command, refuse
from pearl.lang.source import Source, check_size, decode, read_bytes
from pearl.lang.text import shorten

if TYPE_CHECKING:
    from pandas import DataFrame

_OPENED = re.compile(rb"(?:\[[ \t]*\{?|\{)[ \t\r]*\n")
"""A first line that only opens an array or an object."""


def check_utf_8(text: str, where: str) -> None:
    """Check that a line of JSON lines, decoded as such, was UTF-8.

    Raises:
        InputError: the line was not.
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
        InputError: the file cannot be read; or, raised after the last line, some are no objects.
    """
    problems: list[InputError] = []
    for where, line in lines_of(read_json_lines(path, noun)):
        try:
            row = read_row(line, where)
        except InputError as error:
            problems.append(error)
        else:
            yield where, row
    refuse(problems)


def read_json_lines(path: str, noun: str) -> Source:
    """The text of a file of JSON lines, as `read_rows` takes it.

    Raises:
        InputError: the file cannot be read, or is a table.
    """
    data = read_bytes(path, noun)
    refuse_table(path, data)
    return decode(path, data, noun, rows=True)


def refuse_table(path: str, start: bytes) -> None:
    """Check that a file that is to be read as JSON lines is no table, and no JSON that is laid out
    over many lines, of which each would be an error.

    Args:
        path: the file.
        start: its first bytes, to the end of a line.

    Raises:
        InputError: its name ends as a table's does, and it does not begin with an object; or its
            first line only opens a bracket.
    """
    begins = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if path.lower().endswith((".csv", ".tsv", ".xlsx")) and not begins.startswith(b"{"):
        kind = "is a table, and no JSON"
    elif _OPENED.match(begins):
        kind = "is JSON over several lines"
    else:
        return
    raise InputError(
        f"{path} {kind}: give one JSON object a line, as pandas writes them with "
        'to_json("rows.jsonl", orient="records", lines=True).'
    )


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
        InputError: the line is no JSON, or no object, or an object in it has a key twice.
    """
    row = _read_json(line, where)
    if not isinstance(row, dict):
        raise InputError(f"{where} is no object: give one object a line.")
    return row


def _read_json(line: str, where: str, otherwise: str = "") -> Any:  # noqa: ANN401 - any JSON
    check_utf_8(line, where)
    try:
        return _decode(line)
    except InputError as error:
        raise InputError(f"{where} {error}") from None
    except (ValueError, RecursionError) as error:
        raise json_problem(error, where, otherwise) from None


def json_problem(error: ValueError | RecursionError, where: str, otherwise: str = "") -> InputError:
    """The error that says why a line cannot be read as JSON, and what to do.

    Args:
        error: what Python raised.
        where: its file and line, for messages.
        otherwise: what could be given in place of such lines, as the end of a sentence.
    """
    if isinstance(error, RecursionError):
        return InputError(f"{where} is nested too deep: give one plain object a line{otherwise}.")
    if isinstance(error, json.JSONDecodeError):
        return InputError(f"{where} is not JSON: give one object a line{otherwise}.")
    return InputError(f"{where} has a number of too many digits: write it as a text.")


def _nothing(constant: str) -> None:
    """None for NaN, which pandas writes for what a table lacks; Infinity is no JSON."""
    if constant != "NaN":
        raise json.JSONDecodeError("Infinity is no JSON", constant, 0)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of its keys and values, or an `InputError`, the end of a sentence."""
    row = dict(pairs)
    if len(row) < len(pairs):
        # JSON leaves open which of the two counts.
        [(key, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise InputError(f'has the key "{shorten(key)}" twice in one object: leave one of them.')
    return row


_decode = json.JSONDecoder(parse_constant=_nothing, object_pairs_hook=_object).decode


def row_id(row: dict[str, Any], where: str, noun: str) -> str:
    """The ``id`` of a row, as a text.

    Args:
        row: an object of a file of JSON lines.
        where: its file and line, for messages.
        noun: what a row is.

    Raises:
        InputError: it has none, or one that is neither a text nor a whole number, or one that
            cannot be printed.
    """
    name = row.get("id")
    if isinstance(name, int) and not isinstance(name, bool):
        return str(name)
    if name is None or (isinstance(name, str) and not name.strip()):
        raise InputError(f"{where} has no id: give each {noun} one of its own.")
    if not isinstance(name, str):
        raise InputError(f"{where}: its id is to be a text or a whole number.")
    if not name.isprintable():
        raise InputError(
            f"{where}: its id holds characters that cannot be printed: write it without them."
        )
    return name


def plan_row(line: str, name: str, otherwise: str = "") -> dict[str, Any]:
    """A row that has a plan.

    Args:
        line: its JSON.
        name: its file and line, for messages.
        otherwise: what could be given in place of such rows, as the end of a sentence.

    Raises:
        InputError: the line is no JSON, or no object with a plan, or an object in it has a key
            twice.
    """
    row = _read_json(line, name, otherwise)
    if isinstance(row, dict) and row.get("plan") and not isinstance(row["plan"], str):
        raise InputError(f"{name}: plan is to be a text.")
    if not isinstance(row, dict) or not isinstance(row.get("plan"), str):
        raise InputError(f'{name} has no "plan": give a row such as {{"plan": "1. …"}}.')
    check_size(row["plan"], name)
    return row


def as_frame(rows: Iterable[Mapping[str, Any]]) -> DataFrame:
    """Rows as a pandas DataFrame; a value within an object has the column ``key.inner``.

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
