"""Files of JSON lines: one object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pearl.source import InputError, read_source


def read_rows(path: str, what: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of a file of JSON lines, with its file and line, for messages.

    Args:
        path: the file, or ``-`` for standard input.
        what: the noun used in messages.

    Raises:
        InputError: the file cannot be read, or a line is no object.
    """
    # JSON allows line ends within its texts that `splitlines` would split at.
    for number, line in enumerate(read_source(path, what).text.split("\n"), 1):
        if line.strip():
            where = f"{path}:{number}"
            yield where, read_row(line, where)


def read_row(line: str, where: str) -> dict[str, Any]:
    """The object of one line.

    Args:
        line: its JSON.
        where: its file and line, for messages.

    Raises:
        InputError: it is none.
    """
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise InputError(f"{where} is not JSON: give one object a line.") from None
    if not isinstance(row, dict):
        raise InputError(f"{where} is no object: give one object a line.")
    return row
