"""What a run did, one entry a call or decision, written before its result is used."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pearl.models.base import Usage


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
        kept: whether nothing was sent, because the reply was there already.
        started: when a call, or a try at it, began, and when a decision was made: seconds
            since 1970; None where that was not written down.
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
    kept: bool = False
    started: float | None = field(default=None, compare=False)


class Journal:
    """An append-only journal, in memory and, where it is told, in a store.

    Args:
        name: the run's name; empty where it is kept in memory only.
        write: hands an entry to the store.
        flush: waits until the store has what it was handed.
    """

    def __init__(
        self,
        name: str = "",
        write: Callable[[Entry], None] | None = None,
        flush: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.name = name
        self.entries: list[Entry] = []
        self._write = write
        self._flush = flush

    def record(self, entry: Entry) -> None:
        """Append an entry; it is safe once `flush` has returned."""
        self.entries.append(entry)
        if self._write:
            self._write(entry)

    def decide(self, path: str, value: Any) -> None:  # noqa: ANN401 - any JSON
        """Append a decision."""
        self.record(Entry("decision", path, value, started=time.time()))

    def under(self, frame: str) -> Journal:
        """A journal whose entries stand in this one too, their paths below a frame's.

        Args:
            frame: what the paths begin with, as ``try/2``.
        """

        def write(entry: Entry) -> None:
            self.record(replace(entry, path=f"{frame}/{entry.path}"))

        return Journal(self.name, write, self.flush)

    async def flush(self) -> None:
        """Wait until every entry so far is safe."""
        if self._flush:
            await self._flush()
