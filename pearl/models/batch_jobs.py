"""A batch's course, from the file of its requests to the file of its answers.

What was sent is never sent again: how far a batch has come is recorded before
and after each call. Until a batch is submitted a failure is its requests', and
the engine asks again. From then on trouble with the endpoint is waited out,
as the batch runs on meanwhile.

The calls of the Batch API: a file up, a batch begun, a look at it, a file down.

Nothing here tries again, and nothing that comes back is trusted.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from pearl.models.base import FINAL, PASSING, ModelError
from pearl.models.batch_files import (
    LARGEST_LINE,
    BatchStatus,
    Folder,
    Seen,
    State,
    named,
    read_seen,
    unread,
)
from pearl.models.openai import OPENAI
from pearl.models.transport import (
    CONNECT,
    Hidden,
    connection_failure,
    failure,
    headers,
    misdirected,
    proxied,
    read_body,
    read_complaint,
    read_error,
)

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

    from pearl.models.settings import Settings


ENDPOINT = "/v1/chat/completions"
"""Where the provider is to send each request of a batch."""

PIECE = 256 << 10
"""Bytes of a file that are read at once."""

SLOWEST = 50_000
"""Bytes a second below which a file counts as not coming, or not going, at all."""

PAGES = 10
"""Pages of a hundred batches that are looked through for one of ours."""


class Wire:
    """Speaks to one endpoint, within one event loop.

    Args:
        settings: where the endpoint is, who pays, and how long a call may take.
        hidden: takes the key out of a text.
    """

    def __init__(self, settings: Settings, hidden: Hidden) -> None:
        self._settings = settings
        self._hidden = hidden
        self._session: aiohttp.ClientSession | None = None

    async def upload(self, path: Path) -> str:
        """Send a file of requests.

        Args:
            path: of the file.

        Returns:
            The provider's name of it.

        Raises:
            ModelError: it did not take it, as far as is known.
        """
        with _opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            boundary = f"pearl-{secrets.token_hex(16)}"
            head, tail = _envelope(boundary, path.name)
            sent = {
                "Content-Type": f"multipart/form-data; boundary={boundary}",
                "Content-Length": str(len(head) + size + len(tail)),
            }
            data = _pieces(head, file, tail)
            seconds = self._settings.timeout + size / SLOWEST
            found = await self._asked(
                "POST",
                "files",
                missing="The endpoint has no Batch API: ask it live, or check OPENAI_BASE_URL.",
                seconds=seconds,
                data=data,
                headers=sent,
            )
        name = named(found.get("id"))
        if not name:
            raise unread()
        return name

    async def create(self, input_file_id: str, mark: str) -> Seen:
        """Begin a batch.

        Args:
            input_file_id: what was uploaded.
            mark: words by which a person may know it at the provider.

        Raises:
            ModelError: it did not begin, as far as is known.
        """
        asked = {
            "input_file_id": input_file_id,
            "endpoint": ENDPOINT,
            "completion_window": "24h",
            "metadata": {"pearl": mark},
        }
        return self._seen(await self._asked("POST", "batches", json=asked))

    async def look(self, batch_id: str) -> Seen:
        """How a batch stands.

        Raises:
            ModelError: the endpoint did not say.
        """
        missing = (
            f"The endpoint knows no batch {batch_id}: use the key that it was sent with, or remove "
            "its .json file to send its requests anew."
        )
        return self._seen(await self._asked("GET", "batches", batch_id, missing=missing))

    async def recent(self) -> AsyncIterator[Seen]:
        """The account's latest batches, newest first.

        Raises:
            ModelError: the endpoint did not say.
        """
        query = {"limit": "100"}
        for _ in range(PAGES):
            page = await self._asked("GET", "batches", query=query)
            items = page.get("data")
            if not isinstance(items, list):
                raise unread()
            for item in items:
                if isinstance(item, dict) and named(item.get("id")) and named(item.get("status")):
                    yield self._seen(item)
            last = named(items[-1].get("id")) if items and isinstance(items[-1], dict) else ""
            if page.get("has_more") is not True or not last:
                return
            query = {"limit": "100", "after": last}

    async def download(self, file_id: str, file: BinaryIO, most: int) -> bool:
        """Write what a file of the provider's holds.

        Args:
            file_id: the provider's name of it.
            file: where to.
            most: bytes beyond which nothing is read.

        Returns:
            False where the provider has no such file any more.

        Raises:
            ModelError: it did not come whole.
        """
        clock = asyncio.get_running_loop().time
        late, size = clock() + self._settings.timeout, 0
        times = self._times(sock_read=self._settings.timeout)
        parts = ("files", file_id, "content")
        async with self._response("GET", *parts, timeout=times) as response:
            if response.status in (404, 410):
                return False
            await self._refuse(response)
            async for piece in response.content.iter_any():
                _put(file, piece[: most - size])
                size += len(piece)
                if size >= most:
                    response.close()
                    break
                if clock() > late + size / SLOWEST:
                    response.close()
                    raise ModelError("timeout", "The endpoint hardly sends a batch's answers.")
        return True

    async def close(self) -> None:
        """Close what is open."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _asked(
        self,
        method: str,
        *parts: str,
        missing: str = "",
        seconds: float = 0,
        query: dict[str, str] | None = None,
        **sent: Any,  # noqa: ANN401 - aiohttp's
    ) -> dict[str, Any]:
        limit = seconds or self._settings.timeout
        try:
            async with asyncio.timeout(limit):
                async with self._response(method, *parts, query=query, **sent) as response:
                    await self._refuse(response, missing)
                    body = await read_body(response)
        except TimeoutError:
            raise ModelError("timeout", f"No answer within {limit:g} seconds.") from None
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):
            raise unread() from None
        if not isinstance(data, dict):
            raise unread()
        return data

    @asynccontextmanager
    async def _response(
        self,
        method: str,
        *parts: str,
        query: dict[str, str] | None = None,
        **sent: Any,  # noqa: ANN401 - aiohttp's
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        import aiohttp
        from yarl import URL

        try:
            base = URL(self._settings.base_url or OPENAI)
            url = base.joinpath(*parts).with_query(base.query).update_query(query or {})
            session = self._opened(url)
            async with session.request(method, url, allow_redirects=False, **sent) as response:
                yield response
        except (aiohttp.ClientError, OSError) as error:
            raise connection_failure(error) from None
        except ValueError:
            raise misdirected() from None

    async def _refuse(self, response: aiohttp.ClientResponse, missing: str = "") -> None:
        """Raise what an answer without success means; ``missing`` is what 404 does."""
        if response.status < 300:
            return
        body = await read_error(response, self._settings)
        if missing and response.status in (404, 405):
            raise ModelError("request", missing)
        raise failure(response.status, response.headers, read_complaint(body, self._hidden))

    def _times(self, sock_read: float | None = None) -> aiohttp.ClientTimeout:
        import aiohttp

        connect = min(self._settings.timeout, CONNECT)
        return aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=sock_read)

    def _seen(self, data: dict[str, Any]) -> Seen:
        return read_seen(data, self._hidden)

    def _opened(self, url: URL) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            told = headers(self._settings)
            # Each call has a kind of its own, and files come as whatever they are.
            del told["Content-Type"]
            self._session = aiohttp.ClientSession(
                headers=told | {"Accept": "*/*"},
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=self._times(),
                trust_env=proxied(url),
            )
        return self._session


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise ModelError("store", f"{path} cannot be read ({error.strerror}).") from None


def _put(file: BinaryIO, data: bytes) -> None:
    """Write, and take trouble with the disk for none of the endpoint's."""
    try:
        file.write(data)
    except OSError as error:
        raise ModelError(
            "store",
            f"A batch's answers cannot be written ({error.strerror}): make room, and run it again.",
        ) from None


def _envelope(boundary: str, name: str) -> tuple[bytes, bytes]:
    """What stands before and after a file in a form."""
    field = 'Content-Disposition: form-data; name="'
    head = (
        f'--{boundary}\r\n{field}purpose"\r\n\r\nbatch\r\n'
        f'--{boundary}\r\n{field}file"; filename="{name}"\r\n'
        "Content-Type: application/jsonl\r\n\r\n"
    )
    return head.encode(), f"\r\n--{boundary}--\r\n".encode()


async def _pieces(head: bytes, file: BinaryIO, tail: bytes) -> AsyncIterator[bytes]:
    # aiohttp would read the file in a thread.
    yield head
    while piece := file.read(PIECE):
        yield piece
    yield tail


T = TypeVar("T")

GROWTH = 1.1
"""Each pause between two looks is this many times the one before."""

LONGEST = 4.0
"""The longest pause between two looks, in intervals."""

LONGEST_ASKED = 3600.0
"""Seconds that an endpoint may ask to wait; more is not believed."""

LARGEST = 4 << 30
"""Bytes of a batch's answers beyond which nothing is read."""


@dataclass(frozen=True)
class Course:
    """Takes batches to their ends.

    Args:
        wire: speaks to the provider.
        folder: what is known of them.
        interval: seconds between two looks.
        tell: is told of every look.
        room: waits until another batch ends; False where no other is under way.
        random: spreads the looks.
    """

    wire: Wire
    folder: Folder
    interval: float
    tell: Callable[[BatchStatus], None]
    room: Callable[[int], Awaitable[bool]]
    random: random.Random = field(default_factory=random.Random)

    async def run(self, number: int) -> Seen:
        """Go on from wherever a batch stands until its answers are in the folder.

        Args:
            number: the batch's.

        Raises:
            ModelError: it cannot go on; it stands as far as it came.
        """
        state = self.folder.state(number)
        while True:
            state = await self._submitted(state)
            state, seen = await self._watched(state)
            if not seen.crowded_out or not await self.room(number):
                break
            past = (*state.past, state.batch_id)
            state = self.folder.save(replace(state, stage="uploaded", batch_id="", past=past))
        await self._fetched(state, seen)
        self.folder.save(
            replace(
                state,
                stage="ended",
                output_file_id=seen.output_file_id,
                error_file_id=seen.error_file_id,
            )
        )
        return seen

    async def _submitted(self, state: State) -> State:
        if state.stage != "submitted":
            self.tell(BatchStatus(state.number, state.requests, 0, 0, "submitting"))
        if state.stage == "written":
            name = await self.wire.upload(self.folder.input(state.number))
            state = self.folder.save(replace(state, stage="uploaded", input_file_id=name))
        if state.stage == "submitting":
            found = await self._found(state)
            if found is not None:
                return self._known(state, found)
        if state.stage != "submitted":
            state = self._known(state, await self._created(state))
        return state

    def _known(self, state: State, seen: Seen) -> State:
        return self.folder.save(
            replace(state, stage="submitted", batch_id=seen.id, status=seen.status)
        )

    async def _created(self, state: State) -> Seen:
        self.folder.save(replace(state, stage="submitting"))
        try:
            return await self.wire.create(state.input_file_id, state.keys)
        except ModelError as error:
            if error.reason in FINAL:
                self.folder.save(replace(state, stage="uploaded"))
            elif error.reason not in PASSING:
                # It was refused, so nothing runs. Perhaps the file is no longer there.
                self.folder.save(replace(state, stage="written", input_file_id=""))
            raise

    async def _found(self, state: State) -> Seen | None:
        """The batch that was made of our file, where one was."""
        for look in range(2):
            if look:
                # A list may lag behind what was just made.
                await asyncio.sleep(self._pause(0))
            async for seen in self.wire.recent():
                if seen.input_file_id == state.input_file_id and seen.id not in state.past:
                    return seen
        return None

    async def _watched(self, state: State) -> tuple[State, Seen]:
        looks = 0
        last = BatchStatus(state.number, state.requests, 0, 0, state.status)
        while True:
            seen = await self._lasting(partial(self.wire.look, state.batch_id), last)
            if seen.status != state.status:
                state = self.folder.save(replace(state, status=seen.status))
            last = replace(last, completed=seen.completed, failed=seen.failed, status=seen.status)
            self.tell(last)
            if seen.over:
                return state, seen
            await asyncio.sleep(self._pause(looks))
            looks += 1

    async def _fetched(self, state: State, seen: Seen) -> None:
        status = BatchStatus(state.number, state.requests, seen.completed, seen.failed, seen.status)
        most = min(LARGEST, (state.requests + 1) * LARGEST_LINE)
        for name, path in (
            (seen.output_file_id, self.folder.output(state.number)),
            (seen.error_file_id, self.folder.errors(state.number)),
        ):
            if name:
                await self._lasting(partial(self._fetch, name, path, most), status)

    async def _fetch(self, name: str, path: Path, most: int) -> None:
        with self.folder.writing(path) as file:
            await self.wire.download(name, file, most)

    async def _lasting(self, act: Callable[[], Awaitable[T]], status: BatchStatus) -> T:
        """Do what changes nothing, until it succeeds or never will."""
        tries = 0
        while True:
            try:
                return await act()
            except ModelError as error:
                if error.reason not in PASSING:
                    raise
                asked = min(error.retry_after or 0.0, LONGEST_ASKED)
            self.tell(replace(status, status="unreachable"))
            await asyncio.sleep(max(asked, self._pause(tries)))
            tries += 1

    def _pause(self, looks: int) -> float:
        growth = min(LONGEST, GROWTH ** min(looks, 100))
        return self.interval * growth * self.random.uniform(0.9, 1.1)
