"""Checks documents while they are typed in.

A check starts when nothing was typed for `DELAY` seconds, on a thread of its
own, so that the server goes on reading. What is found of a version that is no
longer the newest is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from lsprotocol import types

from pearl.lsp.desk import Desk
from pearl.lsp.documents import Document, Kind
from pearl.lsp.findings import find, shown
from pearl.lsp.shelf import Shelf

DELAY = 0.01
"""Long enough for a paste or a change in many places to arrive in full, too short to be felt."""

Publish = Callable[[types.PublishDiagnosticsParams], None]


class Checks:
    """The checks that are due, one a document.

    Args:
        desk: the documents.
        publish: sends what is found.
    """

    def __init__(self, desk: Desk, publish: Publish) -> None:
        self._desk = desk
        self._publish = publish
        self._due: dict[str, asyncio.Task[None]] = {}
        self._pool = ThreadPoolExecutor(1, "pearl-check")

    def soon(self, document: Document, delay: float = DELAY) -> None:
        """Check a document, and what depends on it, when nothing is typed any more."""
        self._plan_check(document, delay)
        if document.kind is Kind.LIBRARY:
            self.every_plan(delay)

    def every_plan(self, delay: float = DELAY) -> None:
        """Check all open plans: what they are checked with has changed."""
        for plan in self._desk.plans():
            self._plan_check(plan, delay)

    def forget(self, document: Document) -> None:
        """Take back what was said about a document that is closed."""
        self._cancel(document.uri)
        self._publish(types.PublishDiagnosticsParams(document.uri, []))
        if document.kind is Kind.LIBRARY:
            self.every_plan()

    def close(self) -> None:
        """Start no more checks."""
        for uri in list(self._due):
            self._cancel(uri)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _cancel(self, uri: str) -> None:
        task = self._due.pop(uri, None)
        if task:
            task.cancel()

    def _plan_check(self, document: Document, delay: float) -> None:
        self._cancel(document.uri)
        loop = asyncio.get_running_loop()
        self._due[document.uri] = loop.create_task(self._check(document, delay))

    async def _check(self, document: Document, delay: float) -> None:
        await asyncio.sleep(delay)
        shelf = self._desk.shelf(document)
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._pool, self._found, document, shelf)
        if found is not None and self._is_newest(document):
            self._publish(types.PublishDiagnosticsParams(document.uri, found, document.version))

    def _found(self, document: Document, shelf: Shelf) -> list[types.Diagnostic] | None:
        if not self._is_newest(document):
            return None
        return shown(document, find(document, shelf), shelf)

    def _is_newest(self, document: Document) -> bool:
        return self._desk.documents.get(document.uri) is document
