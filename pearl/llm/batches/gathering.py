"""Requests that wait for company, so that they go as one batch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

Send = Callable[[Sequence[str], Sequence[bytes]], None]
"""Takes the keys of a batch's requests, and their lines, in the same order."""


class Gathering:
    """Hands requests on when nobody new has come for a while, or when a file is full.

    Args:
        send: takes a batch.
        quiet: seconds without a new request after which a batch goes.
        most: requests of a batch at most.
        most_bytes: bytes of a batch's file at most; a request beyond it goes alone.
    """

    def __init__(self, send: Send, quiet: float, most: int, most_bytes: int) -> None:
        self._send = send
        self._quiet = quiet
        self._most = most
        self._most_bytes = most_bytes
        self._keys: list[str] = []
        self._lines: list[bytes] = []
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, key: str, line: bytes) -> None:
        """Take a request.

        Args:
            key: the request's.
            line: of the file, with its end.
        """
        if self._lines and self._size + len(line) > self._most_bytes:
            self.flush()
        self._keys.append(key)
        self._lines.append(line)
        self._size += len(line)
        if len(self._lines) >= self._most:
            self.flush()
        else:
            self._wait()

    def flush(self) -> None:
        """Let go what is here."""
        keys, lines = self._keys, self._lines
        self.drop()
        if lines:
            self._send(keys, lines)

    def drop(self) -> None:
        """Forget what is here: none of it was sent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._keys, self._lines, self._size = [], [], 0

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._quiet, self.flush)
