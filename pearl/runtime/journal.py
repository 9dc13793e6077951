"""What a run did, one line a call or decision, written before its result is used."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pearl.llm import Usage
from pearl.source import InputError

HOME = Path(".pearl") / "runs"
"""Where runs are kept, below the working folder."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a journal.

    Args:
        kind: a call to the model, or a decision of the loop.
        path: where in the run, as ``plan/1``, ``step/ross``, ``step/born[0]``.
        value: a call's reply, to the letter, or what was decided, as JSON.
        call_key: the hash of what decides the answer; empty for decisions.
        attempt: counted from 1.
        status: ``done``, ``failed`` or ``skipped``.
        cause: why it failed or was skipped.
        usage: tokens a call took.
        seconds: how long a call took.
    """

    kind: Literal["call", "decision"]
    path: str
    value: Any = None
    call_key: str = ""
    attempt: int = 1
    status: Literal["done", "failed", "skipped"] = "done"
    cause: str = ""
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0


class Journal:
    """An append-only journal; without a folder it is kept in memory only.

    Args:
        folder: the run's folder, made here.

    Raises:
        InputError: the folder cannot be written.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.entries: list[Entry] = []
        self._file = None
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                self._file = (folder / "journal.jsonl").open("a", encoding="utf-8")
            except OSError as error:
                raise InputError(
                    f"{folder} cannot be written ({error.strerror}): run in a folder of your own, "
                    "or name one with --runs."
                ) from None

    @property
    def name(self) -> str:
        """The run's name: its folder's."""
        return self.folder.name if self.folder else ""

    def record(self, entry: Entry) -> None:
        """Append an entry; when this returns, the operating system has it."""
        self.entries.append(entry)
        if self._file is not None:
            line = json.dumps(asdict(entry), ensure_ascii=False, default=str)
            self._file.write(line.encode("utf-8", "replace").decode() + "\n")
            self._file.flush()

    def decide(self, path: str, value: Any) -> None:  # noqa: ANN401 - any JSON
        """Append a decision."""
        self.record(Entry("decision", path, value))

    def close(self) -> None:
        """Close the file; entries stay readable."""
        if self._file is not None:
            self._file.close()
            self._file = None


def new_run(home: Path = HOME) -> Path:
    """A folder for a new run: its name sorts by time."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    return home / f"{stamp}-{secrets.token_hex(3)}"


def find_run(name: str, home: Path = HOME) -> Path:
    """The folder of a run.

    Args:
        name: the run's name, the start of it, ``last``, or a path.
        home: where runs are kept.

    Raises:
        InputError: no such run, or several.
    """
    given = Path(name)
    if given.is_file():
        return given.parent
    if (given / "journal.jsonl").is_file():
        return given
    # By time of writing: two runs may start in one second.
    journals = sorted(home.glob("*/journal.jsonl"), key=lambda path: path.stat().st_mtime_ns)
    runs = [path.parent for path in journals]
    found = runs[-1:] if name == "last" else [run for run in runs if run.name.startswith(name)]
    if len(found) == 1:
        return found[0]
    if not runs:
        raise InputError(f"There are no runs in {home}{os.sep}: make one with pearl ask or run.")
    if not found:
        raise InputError(f"No run is named {name}: the last one is {runs[-1].name}.")
    names = ", ".join(run.name for run in found[:3])
    raise InputError(f"{name} names several runs ({names} …): write more of it.")


def read_journal(folder: Path) -> Iterator[Entry]:
    """The entries of a run. A last line that was cut off by a crash is left out.

    Raises:
        InputError: it cannot be read, or a line in the middle is damaged.
    """
    file = folder / "journal.jsonl"
    # Not splitlines: a reply may hold other line separators than the journal's own.
    try:
        lines = file.read_text(encoding="utf-8").rstrip("\n").split("\n")
    except (OSError, ValueError):
        raise InputError(f"{file} is damaged or shut: the run cannot be read.") from None
    for number, line in enumerate(lines, 1):
        try:
            data = json.loads(line)
            yield Entry(**{**data, "usage": Usage(**data["usage"])})
        except (ValueError, TypeError, KeyError, RecursionError):
            if number < len(lines):
                raise InputError(f"{file}:{number} is damaged: the run cannot be read.") from None
