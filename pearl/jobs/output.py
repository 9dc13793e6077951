"""Where rows go: in the order they come while work goes on, in the tasks' at the end."""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from pearl.lang.source import InputError


class Written(Protocol):
    """Takes rows as they come."""

    def add(self, row: dict[str, Any]) -> None:
        """Take a row.

        Raises:
            InputError: it cannot be written.
        """
        ...

    def close(self, rows: Iterable[dict[str, Any]]) -> None:
        """Take all rows once more, in their final order."""
        ...


Sink: TypeAlias = Callable[[Iterable[dict[str, Any]]], Written]
"""Opens a `Written`, given the rows that are there already."""


class Unwritten:
    """For rows that only the store keeps."""

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        del rows

    def add(self, row: dict[str, Any]) -> None:
        """Leave it to the store."""

    def close(self, rows: Iterable[dict[str, Any]]) -> None:
        """Leave them to the store."""


def line_of(row: dict[str, Any]) -> str:
    """A row as a line of JSON."""
    text = json.dumps(row, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode("utf-8") + "\n"


class Output:
    """Appends rows to a file that always holds whole lines.

    Args:
        path: the file; it is put in place as a whole when it is opened and
            when it is closed.
        rows: what it starts with.

    Raises:
        InputError: it cannot be written.
    """

    def __init__(self, path: str, rows: Iterable[dict[str, Any]]) -> None:
        self._path = Path(path)
        self._file: FileIO | None = None
        self._replace(rows)
        self._file = self._path.open("ab", buffering=0)

    def add(self, row: dict[str, Any]) -> None:
        """Append a row; when this returns, the operating system has it.

        Raises:
            InputError: it cannot be written; the file is as it was.
        """
        if self._file is None:
            return
        line = line_of(row).encode()
        size = self._file.seek(0, os.SEEK_END)
        try:
            if self._file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(size)
            raise self._unwritten(error) from None

    def close(self, rows: Iterable[dict[str, Any]]) -> None:
        """Put the rows in their final order."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._replace(rows)

    def _replace(self, rows: Iterable[dict[str, Any]]) -> None:
        target = self._path.resolve()
        part = target.with_name(f".{target.name[:40]}.{secrets.token_hex(4)}")
        try:
            with part.open("x", encoding="utf-8") as file:
                file.writelines(map(line_of, rows))
            os.replace(part, target)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise self._unwritten(error) from None

    def _unwritten(self, error: OSError) -> InputError:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        advice = "make room, and run it again" if full else "name a file in a folder of your own"
        return InputError(f"{self._path} cannot be written ({error.strerror}): {advice}.")
