"""A batch's lifecycle, from the file of its requests to the files of its results.

What was sent is never sent again: how far a batch has come is recorded before
and after each call. Until a batch is submitted a failure is its requests', and
the engine asks again. From then on trouble with the endpoint is waited out,
as the batch runs on meanwhile.

The calls stand on our own transport. The official SDK would save about forty
lines, and reads answers of any length into memory, follows redirects with what
it sends, and has errors of its own, each to be put into our words.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from pearl.models.base import FINAL, PASSING, ModelError
from pearl.models.batch_store import (
    ENDPOINT,
    ENDS,
    LARGEST_LINE,
    BatchFolder,
    BatchRecord,
    ProviderBatch,
    no_batch_api,
    read_batch,
    read_name,
)
from pearl.models.transport import Transport, failure, read_body, read_complaint, timeout

if TYPE_CHECKING:
    import aiohttp

    from pearl.models.settings import Settings

T = TypeVar("T")

GROWTH = 1.1
"""Each pause between two looks is this many times the one before."""

LONGEST = 4.0
"""The longest pause between two looks, in intervals."""

LONGEST_ASKED = 3600.0
"""Seconds that an endpoint may ask to wait; more is not believed."""

LARGEST = 4 << 30
"""Bytes of a batch's answers beyond which nothing is read."""


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """How a batch stands, for a person who waits.

    Args:
        batch: its number in the folder.
        requests: how many it has.
        completed: those that were answered.
        failed: those that failed.
        status: the provider's word, ``submitting`` before it has one, or ``unreachable`` where it
            could not be asked.
    """

    batch: int
    requests: int
    completed: int
    failed: int
    status: str


@dataclass(frozen=True)
class Lifecycle:
    """Takes batches to their ends.

    Args:
        client: speaks to the provider.
        folder: what is known of them.
        interval: seconds between two looks.
        tell: is told of every look.
        room: waits until another batch ends; False where no other is under way.
        random: spreads the looks.
    """

    client: BatchClient
    folder: BatchFolder
    interval: float
    tell: Callable[[BatchStatus], None]
    room: Callable[[int], Awaitable[bool]]
    random: random.Random = field(default_factory=random.Random)

    async def run(self, number: int) -> ProviderBatch:
        """Go on from wherever a batch stands until its answers are in the folder.

        Args:
            number: the batch's.

        Raises:
            ModelError: it cannot go on; it stands as far as it came.
        """
        record = self.folder.record(number)
        while True:
            record = await self._submit(record)
            record, batch = await self._watch(record)
            if not batch.crowded_out or not await self.room(number):
                break
            past = (*record.past, record.batch_id)
            record = self.folder.save(replace(record, stage="uploaded", batch_id="", past=past))
        await self._fetch(record, batch)
        files = (batch.output_file_id, batch.error_file_id)
        self.folder.save(
            replace(record, stage="ended", output_file_id=files[0], error_file_id=files[1])
        )
        return batch

    async def _submit(self, record: BatchRecord) -> BatchRecord:
        if record.stage == "submitted":
            return record
        self.tell(BatchStatus(record.number, record.requests, 0, 0, "submitting"))
        if record.stage == "written":
            name = await self.client.upload(self.folder.requests(record.number))
            record = self.folder.save(replace(record, stage="uploaded", input_file_id=name))
        batch = await self._find(record) if record.stage == "submitting" else None
        if batch is None:
            batch = await self._create(record)
        return self.folder.save(
            replace(record, stage="submitted", batch_id=batch.id, status=batch.status)
        )

    async def _create(self, record: BatchRecord) -> ProviderBatch:
        self.folder.save(replace(record, stage="submitting"))
        try:
            return await self.client.create(record.input_file_id, record.keys)
        except ModelError as error:
            if error.reason in FINAL:
                self.folder.save(replace(record, stage="uploaded"))
            elif error.reason not in PASSING:
                # It was refused, so nothing runs. Perhaps the file is no longer there.
                self.folder.save(replace(record, stage="written", input_file_id=""))
            raise

    async def _find(self, record: BatchRecord) -> ProviderBatch | None:
        """The batch that was made of our file, where one was."""
        for look in range(2):
            if look:
                # A list may lag behind what was just made.
                await asyncio.sleep(self._pause(0))
            async for batch in self.client.recent():
                if batch.input_file_id == record.input_file_id and batch.id not in record.past:
                    return batch
        return None

    async def _watch(self, record: BatchRecord) -> tuple[BatchRecord, ProviderBatch]:
        looks = 0
        last = BatchStatus(record.number, record.requests, 0, 0, record.status)
        while True:
            batch = await self._lasting(partial(self.client.look, record.batch_id), last)
            if batch.status != record.status:
                record = self.folder.save(replace(record, status=batch.status))
            last = _status(record, batch)
            self.tell(last)
            if batch.status in ENDS:
                return record, batch
            await asyncio.sleep(self._pause(looks))
            looks += 1

    async def _fetch(self, record: BatchRecord, batch: ProviderBatch) -> None:
        most = min(LARGEST, (record.requests + 1) * LARGEST_LINE)

        async def download(name: str, path: Path) -> None:
            with self.folder.writing(path) as file:
                await self.client.download(name, file, most)

        names = (batch.output_file_id, batch.error_file_id)
        for name, path in zip(names, self.folder.results(record.number), strict=True):
            if name:
                await self._lasting(partial(download, name, path), _status(record, batch))

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


def _status(record: BatchRecord, batch: ProviderBatch) -> BatchStatus:
    counts = record.requests, batch.completed, batch.failed
    return BatchStatus(record.number, *counts, batch.status)


SLOWEST = 50_000
"""Bytes a second below which a file counts as not coming, or not going, at all."""

PAGES = 10
"""Pages of a hundred batches that are looked through for one of ours."""


class BatchClient:
    """The calls of the Batch API: a file up, a batch begun, looks at it, a file down.

    Nothing here tries again, and nothing that comes back is trusted.

    Args:
        settings: where the endpoint is, who pays, and how long a call may take.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._transport = Transport(settings)
        self.close = self._transport.close

    async def upload(self, path: Path) -> str:
        """Send a file of requests.

        Args:
            path: of the file.

        Returns:
            The provider's name of it.

        Raises:
            ModelError: it did not take it, as far as is known.
        """
        import aiohttp

        try:
            file = path.open("rb")
        except OSError as error:
            raise ModelError("store", f"{path} cannot be read ({error.strerror}).") from None
        with file:
            form = aiohttp.FormData()
            form.add_field("purpose", "batch")
            form.add_field("file", file, filename=path.name, content_type="application/jsonl")
            answer = await self._ask(
                "POST",
                "files",
                missing="The endpoint has no Batch API: ask it live, or check OPENAI_BASE_URL.",
                seconds=self._settings.timeout + os.fstat(file.fileno()).st_size / SLOWEST,
                data=form,
            )
        name = read_name(answer.get("id"))
        if not name:
            raise no_batch_api()
        return name

    async def create(self, input_file_id: str, mark: str) -> ProviderBatch:
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
        return self._read(await self._ask("POST", "batches", json=asked))

    async def look(self, batch_id: str) -> ProviderBatch:
        """How a batch stands.

        Raises:
            ModelError: the endpoint did not say.
        """
        missing = (
            f"The endpoint knows no batch {batch_id}: use the key that it was sent with, or remove "
            "its .json file to send its requests anew."
        )
        return self._read(await self._ask("GET", "batches", batch_id, missing=missing))

    async def recent(self) -> AsyncIterator[ProviderBatch]:
        """The account's latest batches, newest first.

        Raises:
            ModelError: the endpoint did not say.
        """
        query = {"limit": "100"}
        for _ in range(PAGES):
            page = await self._ask("GET", "batches", query=query)
            items = page.get("data")
            if not isinstance(items, list):
                raise no_batch_api()
            items = [item if isinstance(item, dict) else {} for item in items]
            for item in items:
                if read_name(item.get("id")) and read_name(item.get("status")):
                    yield self._read(item)
            last = read_name(items[-1].get("id")) if items else ""
            if page.get("has_more") is not True or not last:
                return
            query = {"limit": "100", "after": last}

    async def download(self, file_id: str, file: BinaryIO, most: int) -> None:
        """Write what a file of the provider's holds; nothing where it has no such file any more.

        Args:
            file_id: the provider's name of it.
            file: where to.
            most: bytes beyond which nothing is read.

        Raises:
            ModelError: it did not come whole.
        """
        clock, limit = asyncio.get_running_loop().time, self._settings.timeout
        late, size = clock() + limit, 0
        async with self._transport.request(
            "GET",
            *("files", file_id, "content"),
            headers={"Accept": "*/*"},
            timeout=timeout(self._settings, sock_read=limit),
        ) as response:
            if response.status in (404, 410):
                return
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

    async def _ask(
        self,
        method: str,
        *path: str,
        missing: str = "",
        seconds: float = 0,
        **sent: Any,  # noqa: ANN401 - the transport's
    ) -> dict[str, Any]:
        """A JSON object; ``missing`` is what a status of 404 means."""
        limit = seconds or self._settings.timeout
        try:
            async with asyncio.timeout(limit):
                async with self._transport.request(method, *path, **sent) as response:
                    await self._refuse(response, missing)
                    body = await read_body(response)
        except TimeoutError:
            raise ModelError("timeout", f"No answer within {limit:g} seconds.") from None
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):
            raise no_batch_api() from None
        if not isinstance(data, dict):
            raise no_batch_api()
        return data

    async def _refuse(self, response: aiohttp.ClientResponse, missing: str = "") -> None:
        if response.status < 300:
            return
        body = await self._transport.read_error(response)
        if missing and response.status in (404, 405):
            raise ModelError("request", missing)
        complaint = read_complaint(body, self._settings.redact)
        raise failure(response.status, response.headers, complaint)

    def _read(self, data: dict[str, Any]) -> ProviderBatch:
        return read_batch(data, self._settings.redact)


def _put(file: BinaryIO, data: bytes) -> None:
    """Write, and take trouble with the disk for none of the endpoint's."""
    try:
        file.write(data)
    except OSError as error:
        raise ModelError(
            "store",
            f"A batch's answers cannot be written ({error.strerror}): make room, and run it again.",
        ) from None
