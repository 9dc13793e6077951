"""A document's first call goes alone; the others follow once the endpoint has read it.

Endpoints cache what they read of a prompt's beginning for some minutes, and
charge less for it. Calls that set out together would all miss that cache
(docs/design.md).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field

from pearl.models.base import Ask, Reply, Request

SMALLEST = 3500
"""Characters below which no endpoint caches a prefix (1,024 tokens)."""

CACHED_FOR = 240.0
"""Seconds without a call after which a document counts as forgotten."""

MOST = 4096
"""Documents remembered."""


@dataclass(frozen=True)
class PrefixWarmup:
    """Lets the first call on a document return before the others go.

    Args:
        ask: makes the call.
        most: documents remembered; those used least lately are forgotten.
    """

    ask: Ask
    most: int = MOST
    _used: OrderedDict[str, float] = field(default_factory=OrderedDict, init=False)
    _first: dict[str, asyncio.Future[None]] = field(default_factory=dict, init=False)

    async def __call__(self, request: Request) -> Reply:
        """Answer.

        Raises:
            ModelError: as the layer within.
        """
        document = request.document
        if not document or request.stable < SMALLEST:
            return await self.ask(request)
        while not self._warm(document):
            first = self._first.get(document)
            if first is None:
                return await self._alone(request)
            await asyncio.wait([first])
        return await self._noted(request)

    def _warm(self, document: str) -> bool:
        used = self._used.get(document)
        return used is not None and asyncio.get_running_loop().time() - used < CACHED_FOR

    async def _alone(self, request: Request) -> Reply:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._first[request.document] = done
        try:
            return await self._noted(request)
        finally:
            # Where it failed, the next one who waits goes alone.
            del self._first[request.document]
            done.set_result(None)

    async def _noted(self, request: Request) -> Reply:
        reply = await self.ask(request)
        self._used[request.document] = asyncio.get_running_loop().time()
        self._used.move_to_end(request.document)
        if len(self._used) > self.most:
            self._used.popitem(last=False)
        return reply
