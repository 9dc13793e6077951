"""The cache of replies, and the warm-up of the endpoint's own cache of prefixes.

No call is made twice: not in this process, not in another, not in a later run.
A call's key decides its reply, so one look-up serves resuming, caching, and
sharing between questions (docs/design.md).

The first call on a document is made alone, and the others follow once the
endpoint has read it. Endpoints cache the beginning of a prompt for some
minutes, and charge less for it then; concurrent first calls would all miss that
cache.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from pearl.models.base import Ask, Model, ModelError, Reply, Request

FIRST_LOOK = 0.01
"""Seconds until the first look for a reply that another process is waiting for."""

LATER_LOOK = 0.5
"""The most seconds between two looks."""

SMALLEST = 3500
"""The fewest characters of a prefix (1,024 tokens) that an endpoint caches."""

CACHED_FOR = 240.0
"""Seconds without a call after which the endpoint counts as having forgotten a document."""

MOST = 4096
"""The most documents that are remembered."""


class ReplyCache(Protocol):
    """Stores replies, for one process or several."""

    async def claim(self, scope: str, key: str) -> Reply | bool:
        """The reply, or True where the caller is to make the call, or False where another does."""

    def put(self, scope: str, key: str, reply: Reply, model: str, identity: str) -> Reply:
        """Store the reply to a call that was claimed, and return it as `claim` will.

        A reply that was cut is not given by `claim`: under another limit, which may be no part of
        the key, it may be complete.
        """

    def release(self, scope: str, key: str) -> None:
        """Give up a call that was claimed."""


Keep: TypeAlias = Callable[[str, str, Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Gives the JSON data that is stored under a key. If there is none, the function makes it, and it
is stored with the name of its maker. The arguments are the key, that name and the function."""


async def read_or_make(
    replies: ReplyCache, scope: str, key: str, maker: str, make: Callable[[], Awaitable[Any]]
) -> Any:  # noqa: ANN401 - any JSON
    """A `Keep` over a `ReplyCache`: data that no model gave is stored beside the replies."""
    reply = await _stored(replies, scope, key, asyncio.sleep)
    if reply is None:
        try:
            fresh = Reply(json.dumps(await make()))
        except BaseException:
            replies.release(scope, key)
            raise
        reply = replies.put(scope, key, fresh, maker, "")
    return json.loads(reply.text)


async def _stored(
    replies: ReplyCache, scope: str, key: str, sleep: Callable[[float], Awaitable[None]]
) -> Reply | None:
    """The stored reply, once no other process is making the call; None where the caller is to."""
    pause = FIRST_LOOK
    while not (claimed := await replies.claim(scope, key)):
        await sleep(pause)
        pause = min(LATER_LOOK, 1.5 * pause)
    return claimed if isinstance(claimed, Reply) else None


@dataclass(frozen=True)
class CacheLayer:
    """Answers from the cache; identical calls under way are made once (single flight).

    Args:
        ask: makes a call that is not in the cache.
        replies: where replies are stored.
        scope: the scope of stored replies that may be used; empty for those of all runs.
        model: the model that gives the replies.
        sleep: waits some seconds, or raises a `HaltError` once no further call is made.
    """

    ask: Ask
    replies: ReplyCache
    scope: str
    model: Model
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _flights: dict[str, asyncio.Future[Reply]] = field(default_factory=dict, init=False)

    async def __call__(self, request: Request) -> Reply:
        """Answer, from the cache where possible; identical calls that wait fail together."""
        while (flight := self._flights.get(request.key)) is not None:
            await asyncio.wait([flight])
            # If the call was cancelled, one of those who waited makes it.
            if not flight.cancelled():
                if isinstance(error := flight.exception(), ModelError):
                    failed = error.again()
                    failed.shared = True
                    raise failed
                # The reply was another question's, which reports its cost.
                return replace(flight.result(), kept=True, attempts=())
        flight = asyncio.get_running_loop().create_future()
        self._flights[request.key] = flight
        try:
            reply = await self._read_or_make(request)
        except ModelError as error:
            flight.set_exception(error)
            flight.exception()  # Marked as seen: perhaps nobody else waits for it.
            raise
        except BaseException:
            flight.cancel()
            raise
        else:
            flight.set_result(reply)
            return reply
        finally:
            del self._flights[request.key]

    async def _read_or_make(self, request: Request) -> Reply:
        stored = await _stored(self.replies, self.scope, request.key, self.sleep)
        if stored is not None:
            return stored
        try:
            reply = await self.ask(request)
        except BaseException:
            self.replies.release(self.scope, request.key)
            raise
        if reply.key:
            self.replies.release(self.scope, request.key)
        # The stored reply is used, so that a resumed run gives the same answers.
        key = reply.key or request.key
        return self.replies.put(self.scope, key, reply, self.model.name, self.model.identity)


@dataclass(frozen=True)
class PrefixWarmup:
    """Lets the first call on a document return before the others are made.

    Args:
        ask: makes the call.
        most: the most documents remembered; those used least recently are forgotten.
    """

    ask: Ask
    most: int = MOST
    _used: OrderedDict[str, float] = field(default_factory=OrderedDict, init=False)
    _first: dict[str, asyncio.Future[None]] = field(default_factory=dict, init=False)

    async def __call__(self, request: Request) -> Reply:
        """Answer, once the document's first call has come back."""
        document, loop = request.document, asyncio.get_running_loop()
        if not document or request.stable < SMALLEST:
            return await self.ask(request)
        while loop.time() - self._used.get(document, -math.inf) >= CACHED_FOR:
            if document not in self._first:
                self._first[document] = loop.create_future()
                try:
                    return await self._ask_and_note(request, loop)
                finally:
                    # If it failed, the next call is made alone.
                    self._first.pop(document).set_result(None)
            await asyncio.wait([self._first[document]])
        return await self._ask_and_note(request, loop)

    async def _ask_and_note(self, request: Request, loop: asyncio.AbstractEventLoop) -> Reply:
        """Answer, and note when the document was last used."""
        reply = await self.ask(request)
        self._used[request.document] = loop.time()
        self._used.move_to_end(request.document)
        if len(self._used) > self.most:
            self._used.popitem(last=False)
        return reply
