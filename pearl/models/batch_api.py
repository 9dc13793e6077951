"""An endpoint's model, asked through its Batch API: half the price, within a day.

Requests are gathered until no new one has come for a while (`Gathering`), are
sent to the provider as one file (`pearl.models.batch_client`), and are answered
when the batch has ended. A `_Session` matches requests with batches, also with
those of earlier processes, whose state and results are in a folder
(`pearl.models.batch_files`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pearl.lang.errors import InputError
from pearl.models.base import FINAL, OFFLINE, ModelError, Reply, Request
from pearl.models.batch_client import BatchClient, Place, RequestOutcome, read_outcomes, reread
from pearl.models.batch_files import BatchFolder, Lifecycle, Progress, request_line
from pearl.models.endpoint_replies import check_read
from pearl.models.openai import Endpoint, RequestFormat, RequestWriter
from pearl.models.routing import find_endpoint

AT_ONCE = 64
"""Lines of results that are read before other tasks run."""


@dataclass(frozen=True)
class BatchOptions:
    """When batches are sent, and how large they may be.

    Args:
        quiet: seconds without a new request after which a batch is sent.
        interval: seconds between the first looks at a batch.
        progress: called at every look at a batch.
        most: the most requests of a batch, which are as many as a provider takes in one file.
        most_bytes: the most bytes of its file. OpenAI takes 200 MB, compatible providers 100 MB.
    """

    quiet: float = 2.0
    interval: float = 30.0
    progress: Progress | None = None
    most: int = 50_000
    most_bytes: int = 90 << 20


class Batches:
    """A model of an OpenAI-compatible endpoint, asked in batches.

    Replies are those of a live call, so they are cached under the same keys.
    Batches under way are recorded in a folder: a process that is killed loses
    nothing, and the next one with the same folder sends nothing again.

    Args:
        endpoint: where the model is asked, over chat completions; the timeout in its settings
            is that of each HTTP call, and not of a batch.
        folder: where batches are kept; one process at a time works in it.
        options: when batches are sent, and how large they may be.
        name: what a person calls the model; by default its name at the endpoint.
    """

    notice = ""

    def __init__(
        self, endpoint: Endpoint, folder: Path, options: BatchOptions | None = None, name: str = ""
    ) -> None:
        self.name = name or endpoint.model
        self.identity = endpoint.identity
        self.sampling = endpoint.settings.sampling
        self._open = partial(_Session, endpoint, folder, options or BatchOptions())
        self._session: _Session | None = None

    async def answer(self, request: Request) -> Reply:
        session = self._session
        if session is not None and session.loop is not asyncio.get_running_loop():
            await self.close()
        session = self._session = self._session or self._open()
        try:
            reply = await session.reply(request)
        except ModelError as error:
            error.reword(session.transport.named)
            raise
        check_read(request, self.name, reply.usage)
        return reply

    async def close(self) -> None:
        """Close connections and release the folder; batches run on at the provider."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def open_batches(name: str, folder: Path, options: BatchOptions | None = None) -> Batches:
    """A model of the endpoint that the environment names, asked through its Batch API.

    Args:
        name: the model's name.
        folder: where batches are kept.
        options: when batches are sent, and how large they may be.

    Raises:
        InputError: a setting is missing or wrong, or the model is not at an endpoint.
    """
    name = name.strip()
    if not name or name == OFFLINE or name.startswith("recorded:"):
        raise InputError(
            "The Batch API needs a model of an endpoint: add --model NAME, or ask live."
        )
    endpoint = find_endpoint(name)
    if endpoint.api is not RequestWriter:
        raise InputError("Batches are asked over chat completions: name the model alone.")
    return Batches(endpoint, folder, options, name)


@dataclass
class Gathering:
    """Gathers requests, and sends them when no new one has come for a while, or a file is full.

    Args:
        send: sends a batch, given the keys and lines of its requests.
        options: how long to wait, and how many requests are sent together.
    """

    send: Callable[[Sequence[tuple[str, bytes]]], None]
    options: BatchOptions
    _lines: list[tuple[str, bytes]] = field(default_factory=list, init=False)
    _size: int = field(default=0, init=False)
    _timer: asyncio.TimerHandle | None = field(default=None, init=False)

    def add(self, key: str, line: bytes) -> None:
        """Add a request, by its key and its line in the file, with the line end; one that is larger
        than a file may be is sent alone."""
        if self._lines and self._size + len(line) > self.options.most_bytes:
            self._flush()
        self._lines.append((key, line))
        self._size += len(line)
        if self._timer is not None:
            self._timer.cancel()
        if len(self._lines) >= self.options.most:
            self._flush()
        else:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self.options.quiet, self._flush)

    def drop(self) -> None:
        """Drop the gathered requests, none of which was sent."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._lines, self._size = None, [], 0

    def _flush(self) -> None:
        lines = self._lines
        self.drop()
        self.send(lines)


@dataclass(slots=True)
class _Waiting:
    """A request, the reply that callers wait for, and the form in which this process sent it."""

    request: Request
    answer: asyncio.Future[Reply]
    form: RequestFormat


class _Session:
    """Takes requests and hands out replies, within one event loop. Batches of other models in the
    folder are left alone."""

    def __init__(self, endpoint: Endpoint, folder: Path, options: BatchOptions) -> None:
        self.loop = asyncio.get_running_loop()
        self._identity = endpoint.identity
        self.transport = endpoint.connect()
        self._redact = self.transport.redact
        writer = endpoint.writer
        self._body = writer.body
        self._first_form = self._form = writer.first_form
        self._client = BatchClient(self.transport)
        self._folder = BatchFolder(folder)
        self._gathering = Gathering(self._send, options)
        self._lifecycle = Lifecycle(self._client, self._folder, options.interval, options.progress)
        self._waiting: dict[str, _Waiting] = {}
        # Batches that have not ended: the number of each request's, by its key, and their tasks.
        self._batch_of: dict[str, int] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        # Where the replies of ended batches are, and the keys whose cost has been reported.
        self._answered: dict[str, Place] = {}
        self._booked: set[str] = set()
        self._final: ModelError | None = None
        self._ready = self.loop.create_task(self._resume())

    async def reply(self, request: Request) -> Reply:
        """Answer a request, from a batch that has it or from the next one."""
        key = request.key
        await asyncio.wait([self._ready])
        if self._final is not None:
            raise self._final.again()
        self._ready.result()
        if key in self._answered:
            reply = reread(key, self._answered[key], self._redact)
            if reply is not None:
                booked = key in self._booked
                self._booked.add(key)
                return replace(reply, kept=booked)
            # Somebody has changed the file meanwhile.
            del self._answered[key]
        waiting = self._waiting.get(key)
        if waiting is not None:
            await asyncio.wait([waiting.answer])
            error = waiting.answer.exception()
            if isinstance(error, ModelError):
                raise error.again()
            # Its cost is reported to another caller.
            return replace(waiting.answer.result(), kept=True)
        waiting = _Waiting(request, self.loop.create_future(), self._first_form)
        self._waiting[key] = waiting
        if key in self._batch_of:
            self._start(self._batch_of[key])
        else:
            self._gather(waiting, self._form)
        await asyncio.wait([waiting.answer])
        reply = waiting.answer.result()
        self._booked.add(key)
        return reply

    async def close(self) -> None:
        """Stop all tasks and release the folder. Batches run on at the provider."""
        if self.loop is asyncio.get_running_loop():
            tasks = [self._ready, *self._tasks.values()]
            self._stop(ModelError("stopped", "The model was closed before the batch was over."))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._folder.close()
        await self._client.close()

    def _gather(self, waiting: _Waiting, form: RequestFormat) -> None:
        key, waiting.form = waiting.request.key, form
        try:
            body = self._body(waiting.request, form)
            self._gathering.add(key, request_line(key, body, self.transport.batch_path))
        except ModelError as error:
            self._tell(key, error)

    def _tell(self, key: str, outcome: Reply | BaseException) -> None:
        waiting = self._waiting.pop(key, None)
        if waiting is None or waiting.answer.done():
            return
        if isinstance(outcome, Reply):
            waiting.answer.set_result(outcome)
        else:
            waiting.answer.set_exception(outcome)
            waiting.answer.exception()  # Marked as seen: perhaps nobody waits any more.

    async def _resume(self) -> None:
        """Take over the batches of earlier processes."""
        try:
            self._folder.open()
            for record in self._folder.records():
                if record.identity != self._identity:
                    continue
                if record.stage == "ended":
                    async for outcome in self._outcomes(record.number):
                        self._remember(outcome)
                    continue
                keys = self._folder.keys(record)
                self._batch_of.update(dict.fromkeys(keys, record.number))
                if record.stage == "submitted":
                    self._start(record.number)
                # Any other batch is sent once one of its requests is asked for.
        except ModelError as error:
            self._stop(error)

    def _send(self, lines: Sequence[tuple[str, bytes]]) -> None:
        try:
            number = self._folder.add(self._identity, lines)
        except ModelError as error:
            self._stop(error)
            return
        self._batch_of.update((key, number) for key, _ in lines)
        self._start(number)

    def _keys(self, number: int) -> list[str]:
        return [key for key, batch in self._batch_of.items() if batch == number]

    def _start(self, number: int) -> None:
        """Start the task that takes a batch to its end, unless one is running."""
        if number not in self._tasks or self._tasks[number].done():
            self._tasks[number] = self.loop.create_task(self._run(number))

    async def _run(self, number: int) -> None:
        try:
            ended = await self._lifecycle.run(number)
            await self._deliver(number, ended.left_out())
        except ModelError as error:
            if error.reason in FINAL:
                self._stop(error)
                return
            # The batch stays as it is, and goes on when one of its requests is asked for again.
            for key in self._keys(number):
                self._tell(key, error.again())
        except Exception as error:  # noqa: BLE001 - callers must not wait for ever
            for key in list(self._waiting):
                self._tell(key, error)

    async def _deliver(self, number: int, missing: ModelError) -> None:
        """Answer everybody who waits for a request of a batch; ``missing`` is the error for
        requests of which the results say nothing."""
        unanswered = dict.fromkeys(self._keys(number))
        errors: list[ModelError] = []
        async for outcome in self._outcomes(number):
            key, result = outcome.key, outcome.result
            if key not in unanswered:
                continue
            del unanswered[key]
            del self._batch_of[key]
            self._remember(outcome)
            if isinstance(result, ModelError):
                errors.append(result)
                if self._rewritten(key, result.complaint):
                    continue
            self._tell(key, result)
        for key in unanswered:
            errors.append(missing.again())
            del self._batch_of[key]
            self._tell(key, errors[-1])
        final = [error for error in errors if error.reason in FINAL]
        if final:
            self._stop(final[0])

    async def _outcomes(self, number: int) -> AsyncIterator[RequestOutcome]:
        """The outcome in each line of a batch's results; other tasks run in between."""
        for path in self._folder.results(number):
            for count, outcome in enumerate(read_outcomes(path, self._redact), 1):
                yield outcome
                if count % AT_ONCE == 0:
                    await asyncio.sleep(0)

    def _remember(self, outcome: RequestOutcome) -> None:
        """Note where a reply is; a failure is not noted, so that the request may be sent again."""
        if isinstance(outcome.result, Reply):
            self._answered.setdefault(outcome.key, outcome.place)

    def _rewritten(self, key: str, complaint: str) -> bool:
        """Send a request again, without a field that the endpoint has refused; False if there is
        none.

        This is no retry: it is another request, and each field is left out from then on.
        """
        waiting = self._waiting.get(key)
        if waiting is None:
            return False
        form = waiting.form.without(complaint)
        if self._body(waiting.request, form) == self._body(waiting.request, waiting.form):
            return False
        self._form = self._form.without(complaint)
        self._gather(waiting, self._form)
        return True

    def _stop(self, error: ModelError) -> None:
        """Stop, and fail everybody who waits with an error."""
        self._final = error
        self._gathering.drop()
        for key in list(self._waiting):
            self._tell(key, error.again())
        current = asyncio.current_task()
        for task in self._tasks.values():
            if task is not current:
                task.cancel()
