"""The files that record each batch, and its lifecycle from requests to results.

A folder holds a lock and, for a batch 1, ``0001.jsonl`` (its requests),
``0001.json`` (its stage), ``0001.output.jsonl`` and ``0001.error.jsonl`` (its
results). Every file is put in place when it is whole, so a process may be
killed at any moment, and the next one goes on.

What was sent is never sent again: the stage of a batch is recorded before and
after each call. A failure before a batch is submitted fails its requests, and
the engine retries them. After that, failures of the endpoint are waited out,
because the batch runs on meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias, TypeVar, get_args

from pearl.lang.output_files import lock, replacing
from pearl.lang.text import text_digest
from pearl.lang.values import canonical_json
from pearl.models.base import FINAL, PASSING, ModelError
from pearl.models.batch_client import ENDS, LARGEST_LINE, BatchClient, ProviderBatch

T = TypeVar("T")

Stage = Literal["written", "uploaded", "submitting", "submitted", "ended"]
"""How far a batch has come. ``submitting`` is recorded before the call, ``submitted`` after it:
between the two only the provider knows whether the batch exists."""

OPENING = '{"custom_id":'
"""The beginning of each line of a file of requests."""

GROWTH = 1.1
"""The factor by which each pause between two looks is longer than the one before."""

LONGEST = 4.0
"""The longest pause between two looks, in intervals."""

LONGEST_ASKED = 3600.0
"""The longest pause, in seconds, that an endpoint may ask for."""

LARGEST = 4 << 30
"""The most bytes of a batch's answers that are read."""


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """What is known of a batch.

    Args:
        number: the number in its files' names.
        identity: the identity of its model.
        requests: how many requests it has.
        keys: a hash of their keys, in order.
        stage: how far it has come.
        input_file_id: the provider's name for the uploaded file; empty before the upload.
        batch_id: the provider's name for the batch; empty before it is submitted.
        status: its last status at the provider.
        output_file_id: the provider's name for the answers; empty where there are none.
        error_file_id: the provider's name for the failures; empty where there are none.
        past: batches of the same input that the provider had no room for.
    """

    number: int
    identity: str
    requests: int
    keys: str
    stage: Stage = "written"
    input_file_id: str = ""
    batch_id: str = ""
    status: str = ""
    output_file_id: str = ""
    error_file_id: str = ""
    past: tuple[str, ...] = ()


def request_line(key: str, body: bytes, path: str) -> bytes:
    """A line of a file of requests: a key, the body of a request, and the path it is sent to."""
    head = f'{OPENING}{canonical_json(key)},"method":"POST","url":"{path}","body":'
    return b"".join((head.encode(), body, b"}\n"))


@dataclass
class BatchFolder:
    """Where the batches of one or several models are kept, for one process at a time.

    Every method raises a `ModelError` where the disk or a file cannot be used.

    Args:
        path: the folder; it is made where it is missing.
    """

    path: Path
    _lock: BinaryIO | None = field(default=None, init=False)

    def open(self) -> None:
        """Lock the folder for this process, if the system has locks."""
        with self._disk():
            self.path.mkdir(parents=True, exist_ok=True)
            file = (self.path / "lock").open("ab")
        if lock(file) is False:
            file.close()
            raise ModelError(
                "store",
                f"Another process works in {self.path}: wait for its end, or name another folder.",
            )
        self._lock = file
        with self._disk():
            # Half-written files of a process that was killed.
            for part in self.path.glob(".*.part"):
                part.unlink(missing_ok=True)

    def close(self) -> None:
        """Release the folder's lock, so that another process may use it."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def requests(self, number: int) -> Path:
        """The file of a batch's requests."""
        return self.path / f"{number:04}.jsonl"

    def results(self, number: int) -> tuple[Path, Path]:
        """The files of a batch's answers and of its failures."""
        return self.path / f"{number:04}.output.jsonl", self.path / f"{number:04}.error.jsonl"

    def records(self) -> list[BatchRecord]:
        """Every batch that is known, by number."""
        with self._disk():
            names = [path.stem for path in self.path.glob("*.json")]
        return [self.record(number) for number in sorted(map(int, filter(str.isdecimal, names)))]

    def record(self, number: int) -> BatchRecord:
        """The record of a batch, as the folder has it."""
        path = self._record(number)
        with self._disk():
            text = path.read_bytes()
        try:
            data = json.loads(text)
            record = BatchRecord(**{**data, "past": tuple(data.get("past", ()))})
            valid = record.number == number and record.stage in get_args(Stage)
        except (ValueError, TypeError, AttributeError, RecursionError):
            valid = False
        if not valid:
            raise ModelError(
                "store",
                f"{path} cannot be read: put it back, or remove it to send its requests anew.",
            )
        return record

    def save(self, record: BatchRecord) -> BatchRecord:
        """Write a batch's record, and return it."""
        with self.writing(self._record(record.number)) as file:
            file.write(canonical_json(asdict(record)).encode() + b"\n")
        return record

    def add(self, identity: str, lines: Sequence[tuple[str, bytes]]) -> int:
        """Add a batch of requests, each a key and its `request_line`, and return its number."""
        number = max((record.number for record in self.records()), default=0) + 1
        with self._disk():
            # They may be left of a batch whose record a person has removed.
            for path in self.results(number):
                path.unlink(missing_ok=True)
        with self.writing(self.requests(number)) as file:
            file.writelines(line for _, line in lines)
        self.save(BatchRecord(number, identity, len(lines), _hash(key for key, _ in lines)))
        return number

    def keys(self, record: BatchRecord) -> list[str]:
        """The keys of a batch's requests, in order."""
        path = self.requests(record.number)
        decoder = json.JSONDecoder()
        with self._disk(), path.open("rb") as file:
            try:
                keys = [decoder.raw_decode(line.decode(), len(OPENING))[0] for line in file]
                same = _hash(keys) == record.keys
            except (ValueError, TypeError, RecursionError):
                same = False
        if not same:
            raise ModelError(
                "store",
                f"{path} is not as it was written: put it back, or remove "
                f"{self._record(record.number).name} to send its requests anew.",
            )
        return keys

    @contextmanager
    def writing(self, path: Path) -> Iterator[BinaryIO]:
        """A file that is put in place when the block ends well."""
        with self._disk(), replacing(path) as file:
            yield file

    def _record(self, number: int) -> Path:
        return self.path / f"{number:04}.json"

    @contextmanager
    def _disk(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ModelError(
                "store",
                f"The folder {self.path} cannot be used ({error.strerror}): make room, or name "
                "another.",
            ) from None


def _hash(keys: Iterable[str]) -> str:
    return text_digest("\n".join(keys))


Progress: TypeAlias = Callable[[BatchRecord, ProviderBatch], None]
"""Told of a batch at every look. Its status is the provider's word, ``submitting`` before there is
one, or ``unreachable`` where the provider could not be asked."""


@dataclass
class Lifecycle:
    """Takes batches from their requests to their results.

    Args:
        client: the calls to the provider.
        folder: the records of the batches.
        interval: seconds between the first two looks.
        progress: called at every look.
    """

    client: BatchClient
    folder: BatchFolder
    interval: float
    progress: Progress | None = None
    _random: random.Random = field(default_factory=random.Random, init=False)
    _at_provider: set[int] = field(default_factory=set, init=False)
    _left: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    async def run(self, number: int) -> ProviderBatch:
        """Continue a batch from its recorded stage until its results are in the folder.

        Raises:
            ModelError: it cannot go on; the record has the stage that it reached.
        """
        try:
            record = self.folder.record(number)
            while True:
                if record.stage != "submitted":
                    record = await self._submit(record)
                record, batch = await self._watch(record)
                if not batch.crowded_out or not self._at_provider:
                    break
                # There is room for it once another batch has ended at the provider.
                await self._left.wait()
                past = (*record.past, record.batch_id)
                record = replace(record, stage="uploaded", batch_id="", past=past)
                self.folder.save(record)
            most = min(LARGEST, (record.requests + 1) * LARGEST_LINE)

            async def download(name: str, path: Path) -> None:
                with self.folder.writing(path) as file:
                    await self.client.download(name, file, most)

            output, error = batch.output_file_id, batch.error_file_id
            for name, path in zip((output, error), self.folder.results(number), strict=True):
                if name:
                    await self._lasting(partial(download, name, path), record, batch)
            ended = replace(record, stage="ended", output_file_id=output, error_file_id=error)
            self.folder.save(ended)
            return batch
        finally:
            self._leave(number)

    def _tell(self, record: BatchRecord, batch: ProviderBatch) -> None:
        if batch.status in ENDS:
            self._leave(record.number)
        else:
            self._at_provider.add(record.number)
        if self.progress is not None:
            self.progress(record, batch)

    def _leave(self, number: int) -> None:
        if number in self._at_provider:
            self._at_provider.remove(number)
            self._left.set()
            self._left = asyncio.Event()

    async def _submit(self, record: BatchRecord) -> BatchRecord:
        self._tell(record, ProviderBatch("", "submitting"))
        if record.stage == "written":
            name = await self.client.upload(self.folder.requests(record.number))
            record = self.folder.save(replace(record, stage="uploaded", input_file_id=name))
        batch = await self._find(record) if record.stage == "submitting" else None
        if batch is None:
            self.folder.save(replace(record, stage="submitting"))
            try:
                batch = await self.client.create(record.input_file_id, record.keys)
            except ModelError as error:
                if error.reason in FINAL:
                    self.folder.save(replace(record, stage="uploaded"))
                elif error.reason not in PASSING:
                    # It was refused, so no batch runs. Perhaps the uploaded file is gone.
                    self.folder.save(replace(record, stage="written", input_file_id=""))
                raise
        return self.folder.save(
            replace(record, stage="submitted", batch_id=batch.id, status=batch.status)
        )

    async def _find(self, record: BatchRecord) -> ProviderBatch | None:
        """The batch that the provider made of a record's file; None where it made none."""
        for look in range(2):
            if look:
                # The list may not show yet what was just created.
                await asyncio.sleep(self._pause(0))
            async for batch in self.client.recent():
                if batch.input_file_id == record.input_file_id and batch.id not in record.past:
                    return batch
        return None

    async def _watch(self, record: BatchRecord) -> tuple[BatchRecord, ProviderBatch]:
        looks = 0
        batch = ProviderBatch(record.batch_id, record.status)
        while True:
            batch = await self._lasting(partial(self.client.look, record.batch_id), record, batch)
            if batch.status != record.status:
                record = self.folder.save(replace(record, status=batch.status))
            self._tell(record, batch)
            if batch.status in ENDS:
                return record, batch
            await asyncio.sleep(self._pause(looks))
            looks += 1

    async def _lasting(
        self, act: Callable[[], Awaitable[T]], record: BatchRecord, batch: ProviderBatch
    ) -> T:
        """Repeat a call that changes nothing until it succeeds, or fails for good."""
        tries = 0
        while True:
            try:
                return await act()
            except ModelError as error:
                if error.reason not in PASSING:
                    raise
                pause = min(error.retry_after or 0.0, LONGEST_ASKED)
            self._tell(record, replace(batch, status="unreachable"))
            await asyncio.sleep(max(pause, self._pause(tries)))
            tries += 1

    def _pause(self, looks: int) -> float:
        growth = min(LONGEST, GROWTH ** min(looks, 100))
        return self.interval * growth * self._random.uniform(0.9, 1.1)
