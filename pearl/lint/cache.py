"""A cache of findings: one SQLite file, whose keys are hashes of all that decides the findings.

It stands in the user's ``~/.cache`` and not in a project, so that no repository can bring findings
along, or hide them. If the file cannot be used, texts are checked as if there were none.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pearl.lang.diagnostics import Diagnostic, Edit, Fix, Label, Safety, Severity
from pearl.lang.source import Span

if TYPE_CHECKING:
    import sqlite3

LARGEST = 256 << 20
"""The size in bytes above which the cache is emptied."""

_WAIT = 5.0
"""Seconds to wait while another process has locked the file."""


def rules_version() -> str:
    """A hash of the code that finds something: of the language and of the rules."""
    package = Path(__file__).parents[1]
    files = sorted((*package.glob("lang/*.py"), *package.glob("lint/**/*.py")))
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def key_of(text: str, base: bytes) -> bytes:
    """The key of what is found in a text.

    Args:
        text: the text.
        base: a hash of everything else that decides the findings, of at most 64 bytes.
    """
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=16, key=base).digest()


class Cache:
    """Findings by `key_of`; several processes may use one at once.

    Args:
        file: the SQLite file; it and its folder are made where they are missing.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._opened: sqlite3.Connection | None = None

    def get(self, keys: Sequence[bytes]) -> dict[bytes, list[Diagnostic]]:
        """The findings of those texts that the cache holds, by key."""
        findings: dict[bytes, list[Diagnostic]] = {}

        def read(database: sqlite3.Connection) -> None:
            for key in keys:
                row = database.execute("SELECT found FROM found WHERE key = ?", (key,)).fetchone()
                if row:
                    findings[key] = [_diagnostic(*fields) for fields in json.loads(row[0])]

        self._try(read)
        return findings

    def put(self, findings: Mapping[bytes, Sequence[Diagnostic]]) -> None:
        """Store the findings of texts, by key."""
        rows = [(key, json.dumps([*map(_fields, each)])) for key, each in findings.items()]

        def write(database: sqlite3.Connection) -> None:
            database.execute("BEGIN IMMEDIATE")
            database.executemany("INSERT OR REPLACE INTO found VALUES (?, ?)", rows)
            database.execute("COMMIT")

        self._try(write)

    def _try(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Use the database; an error of the file ends the work without being raised."""
        import sqlite3

        try:
            if self._opened is None:
                self._opened = self._open()
            work(self._opened)
        except (sqlite3.Error, OSError, ValueError, TypeError, RecursionError) as error:
            if self._opened is not None:
                self._opened.close()
                self._opened = None
            # If it is locked, cannot be written, or the disk is full, a later try may succeed.
            if isinstance(error, sqlite3.OperationalError | OSError):
                return
            # It is damaged, or no database: it is deleted, and its texts are checked again.
            with suppress(OSError):
                for ending in ("", "-wal", "-shm"):
                    Path(f"{self._file}{ending}").unlink(missing_ok=True)

    def _open(self) -> sqlite3.Connection:
        import sqlite3

        self._file.parent.mkdir(parents=True, exist_ok=True)
        # It quotes plans, so only its owner may read it.
        os.close(os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600))
        database = sqlite3.connect(self._file, timeout=_WAIT, isolation_level=None)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=OFF")
        database.execute(
            "CREATE TABLE IF NOT EXISTS found (key BLOB PRIMARY KEY, found TEXT) WITHOUT ROWID"
        )
        pages, free, size = (
            int(database.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count", "page_size")
        )
        if (pages - free) * size > LARGEST:
            database.execute("DELETE FROM found")
        return database


def _fields(item: Diagnostic) -> list[Any]:
    fix = item.fix and [item.fix.title, [[*edit.span, edit.text] for edit in item.fix.edits],
                       item.fix.safety]  # fmt: skip
    labels = [[*label.span, label.text] for label in item.labels]
    head = [item.code, item.name, item.severity, *item.span]
    return [*head, item.message, item.help, labels, dict(item.data), fix]


def _diagnostic(
    code: str, name: str, severity: str, start: int, end: int, message: str, help: str,
    labels: list[tuple[int, int, str]], data: dict[str, Any],
    fix: tuple[str, list[tuple[int, int, str]], str] | None,
) -> Diagnostic:  # fmt: skip
    """The reverse of `_fields`."""
    edits = tuple(Edit(Span(at, to), text) for at, to, text in fix[1]) if fix else ()
    return Diagnostic(
        code, name, Severity(severity), Span(start, end), message, help,
        tuple(Label(Span(at, to), text) for at, to, text in labels), data,
        Fix(fix[0], edits, Safety(fix[2])) if fix else None,
    )  # fmt: skip
