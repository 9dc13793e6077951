"""The tools of a file, shared by the questions that are under way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from pearl.source import read_source
from pearl.tools import Toolbox, load_tools, read_tools
from pearl.tools.declared import Search
from pearl.values import digest


@dataclass(eq=False)
class Tooling:
    """A file of tools, and its toolbox while a question needs it.

    Args:
        path: the file.
        digest: the hash of its text, and of the indexes that it names.
    """

    path: str
    digest: str
    _toolbox: Toolbox | None = None
    _users: int = field(default=0, init=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent to a worker without what the environment gave: it reads its own."""
        return Tooling, (self.path, self.digest)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Toolbox]:
        """The tools, for one question; connections are let go when no question has them.

        Raises:
            InputError: the file cannot be used here.
        """
        toolbox = self._toolbox = self._toolbox or load_tools(self.path)
        self._users += 1
        try:
            yield toolbox.afresh()
        finally:
            self._users -= 1
            if not self._users:
                await toolbox.close()


def load_tooling(path: str) -> Tooling | None:
    """The tools of a file; None where none is named.

    Raises:
        InputError: the file cannot be used.
    """
    if not path:
        return None
    toolbox = load_tools(path)
    return Tooling(path, digest([read_source(path, "tools").digest, *_indexes(path)]), toolbox)


def _indexes(path: str) -> Iterator[list[str]]:
    """What decides what the file's searches find; an index may be made anew where it is."""
    from pearl.retrieval import open_index

    for one in read_tools(path).tools:
        if isinstance(one.how, Search):
            info = open_index(str(one.how.index)).info
            yield [one.tool.name, info.digest, info.engine]
