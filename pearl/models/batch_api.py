"""An endpoint's model, asked through its Batch API.

Who waits for what: requests on one side, batches on the other, within one event loop.

Requests that wait for company, so that they go as one batch.

Which batches are at the provider, for those that it had no room for.

Replies of batches that are over: left in their files, and found by key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pearl.lang.source import InputError
from pearl.lang.values import canonical_json
from pearl.models.base import FINAL, ModelError, Reply, Request
from pearl.models.batch_files import (
    ENDS,
    OPENING,
    BatchStatus,
    Folder,
    Outcome,
    Place,
    Seen,
    Terms,
    left_out,
    read_outcome,
    read_outcomes,
)
from pearl.models.batch_jobs import ENDPOINT, Course, Wire
from pearl.models.openai import OPENAI, SECRET_LENGTH, Form, OpenAI, Reading, Writer, first_form
from pearl.models.transport import Hidden
from pearl.prompts.calls import ExecuteStep

if TYPE_CHECKING:
    from pearl.models.settings import Settings


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


class Room:
    """Knows when a batch leaves the provider, and so makes room for another."""

    def __init__(self) -> None:
        self._lodged: dict[int, asyncio.Future[None]] = {}

    def note(self, status: BatchStatus) -> None:
        """Take in how a batch stands."""
        if status.status in ENDS:
            self.leave(status.batch)
        elif status.batch not in self._lodged:
            self._lodged[status.batch] = asyncio.get_running_loop().create_future()

    def leave(self, number: int) -> None:
        """Count a batch as gone."""
        gone = self._lodged.pop(number, None)
        if gone is not None:
            gone.set_result(None)

    async def wait(self, number: int) -> bool:
        """Wait until a batch other than this one leaves; False where there is no other."""
        others = [gone for other, gone in self._lodged.items() if other != number]
        if others:
            await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
        return bool(others)


class Shelf:
    """Finds replies again.

    Args:
        hidden: takes the key out of a text.
    """

    def __init__(self, hidden: Hidden) -> None:
        self._hidden = hidden
        self._places: dict[str, Place] = {}
        self._booked: set[str] = set()

    def add(self, outcome: Outcome) -> None:
        """Remember where a reply stands; a failure is no reason not to ask again."""
        if outcome.reply is not None:
            self._places.setdefault(outcome.key, outcome.place)

    def book(self, key: str) -> None:
        """Note that somebody has what a reply cost in their books."""
        self._booked.add(key)

    def take(self, key: str) -> Reply | None:
        """A reply, kept where it is in somebody's books already; None where there is none.

        Args:
            key: the request's.
        """
        place = self._places.get(key)
        if place is None:
            return None
        found = read_outcome(place, self._hidden)
        if found is None or found.key != key or found.reply is None:
            # Somebody has changed the file meanwhile.
            del self._places[key]
            return None
        kept = key in self._booked
        self._booked.add(key)
        return replace(found.reply, kept=kept)


AT_ONCE = 64
"""Lines that are read before others get their turn."""


@dataclass(slots=True)
class _Waiting:
    """A request, who is told, and the form in which it was sent by this process."""

    request: Request
    answer: asyncio.Future[Reply]
    form: Form


@dataclass(slots=True)
class _UnderWay:
    """A batch that is not over: its keys, and the task that takes it on, where there is one."""

    keys: Sequence[str]
    task: asyncio.Task[None] | None = None


class Desk:
    """Takes requests and hands out replies.

    Args:
        identity: of the model; batches of others are left alone.
        writer: writes requests.
        form: what the endpoint takes, to begin with.
        wire: speaks to the provider.
        folder: what is known of batches.
        hidden: takes the key out of a text.
        terms: when batches go.
    """

    def __init__(
        self,
        identity: str,
        writer: Writer,
        form: Form,
        wire: Wire,
        folder: Folder,
        hidden: Hidden,
        terms: Terms,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self._identity = identity
        self._writer = writer
        self._first_form = self._form = form
        self._wire = wire
        self._folder = folder
        self._hidden = hidden
        self._gathering = Gathering(self._send, terms.quiet, terms.most, terms.most_bytes)
        self._room = Room()
        self._shelf = Shelf(hidden)
        self._course = Course(wire, folder, terms.interval, self._told, self._room.wait)
        self._progress = terms.progress
        self._waiting: dict[str, _Waiting] = {}
        self._numbers: dict[str, int] = {}
        self._under_way: dict[int, _UnderWay] = {}
        self._final: ModelError | None = None
        self._ready = self.loop.create_task(self._read())

    async def reply(self, request: Request) -> Reply:
        """Answer a request, from a batch that has it or from the next one.

        Raises:
            ModelError: no usable answer.
        """
        await asyncio.wait([self._ready])
        if self._final is not None:
            raise _again(self._final)
        self._ready.result()
        reply = self._shelf.take(request.key)
        if reply is not None:
            return reply
        waiting = self._waiting.get(request.key)
        if waiting is not None:
            await asyncio.wait([waiting.answer])
            return _shared(waiting.answer)
        waiting = _Waiting(request, self.loop.create_future(), self._first_form)
        self._waiting[request.key] = waiting
        number = self._numbers.get(request.key)
        if number is None:
            self._gather(waiting)
        else:
            self._start(number)
        await asyncio.wait([waiting.answer])
        reply = waiting.answer.result()
        self._shelf.book(request.key)
        return reply

    async def close(self) -> None:
        """Let go of everything; batches run on at the provider."""
        tasks = [self._ready, *(one.task for one in self._under_way.values() if one.task)]
        self._stop(ModelError("stopped", "The model was closed before the batch was over."))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._wire.close()
        self._folder.close()

    async def leave(self) -> None:
        """Let go of what an event loop that has ended left behind."""
        self._folder.close()
        await self._wire.close()

    # --- requests ---

    def _gather(self, waiting: _Waiting) -> None:
        request = waiting.request
        waiting.form = self._form
        try:
            line = _line(request.key, self._writer.body(request, self._form))
        except UnicodeEncodeError:
            self._tell(
                request.key,
                ModelError("request", "The prompt holds half a character, which cannot be sent."),
            )
            return
        self._gathering.add(request.key, line)

    def _tell(self, key: str, what: Reply | ModelError) -> None:
        waiting = self._waiting.pop(key, None)
        if waiting is None or waiting.answer.done():
            return
        if isinstance(what, Reply):
            waiting.answer.set_result(what)
        else:
            waiting.answer.set_exception(what)
            waiting.answer.exception()  # Marked as seen: perhaps nobody waits any more.

    # --- batches ---

    async def _read(self) -> None:
        try:
            await self._meet()
        except ModelError as error:
            self._stop(error)

    async def _meet(self) -> None:
        """Meet the batches of earlier processes."""
        self._folder.open()
        for state in self._folder.states():
            if state.identity != self._identity:
                continue
            if state.stage == "ended":
                await self._each(state.number, self._shelf.add)
                continue
            keys = self._folder.keys(state)
            self._under_way[state.number] = _UnderWay(keys)
            self._numbers.update(dict.fromkeys(keys, state.number))
            if state.stage == "submitted":
                self._start(state.number)
            # Any other is taken on when somebody asks for one of its requests.

    def _send(self, keys: Sequence[str], lines: Sequence[bytes]) -> None:
        try:
            number = self._folder.write(self._identity, keys, lines).number
        except ModelError as error:
            self._stop(error)
            return
        self._under_way[number] = _UnderWay(keys)
        self._numbers.update(dict.fromkeys(keys, number))
        self._start(number)

    def _start(self, number: int) -> None:
        batch = self._under_way[number]
        if batch.task is None or batch.task.done():
            batch.task = self.loop.create_task(self._go(number))
            batch.task.add_done_callback(self._look_after)

    async def _go(self, number: int) -> None:
        try:
            await self._deliver(number, await self._course.run(number))
        except ModelError as error:
            if error.reason in FINAL:
                self._stop(error)
                return
            # The batch stays: who asks again takes it on from where it stands.
            for key in self._under_way[number].keys:
                self._tell(key, _again(error))
        finally:
            self._room.leave(number)

    async def _deliver(self, number: int, seen: Seen) -> None:
        left = dict.fromkeys(self._under_way[number].keys)
        final: list[ModelError] = []

        def take(outcome: Outcome) -> None:
            if outcome.key in left:
                del left[outcome.key]
                self._settle(outcome)
                if outcome.error is not None and outcome.error.reason in FINAL:
                    final.append(outcome.error)

        await self._each(number, take)
        for key in left:
            self._numbers.pop(key, None)
            self._tell(key, left_out(seen))
        del self._under_way[number]
        if left and left_out(seen).reason in FINAL:
            final.append(left_out(seen))
        if final:
            self._stop(final[0])

    async def _each(self, number: int, take: Callable[[Outcome], None]) -> None:
        """Hand over every line of a batch's results, and let others have their turn."""
        count = 0
        for path in (self._folder.output(number), self._folder.errors(number)):
            for outcome in read_outcomes(path, self._hidden):
                take(outcome)
                count += 1
                if count % AT_ONCE == 0:
                    await asyncio.sleep(0)

    def _settle(self, outcome: Outcome) -> None:
        self._numbers.pop(outcome.key, None)
        self._shelf.add(outcome)
        if outcome.reply is not None:
            self._tell(outcome.key, outcome.reply)
        elif outcome.error is not None and not self._rewritten(outcome):
            self._tell(outcome.key, outcome.error)

    def _rewritten(self, outcome: Outcome) -> bool:
        """Send a request once more where it goes without a field that the endpoint does not take.

        This is no retry: what goes out is another request, and each field is
        given up once and for all.
        """
        waiting = self._waiting.get(outcome.key)
        if waiting is None or not outcome.complaint:
            return False
        form = waiting.form.without(outcome.complaint)
        body = self._writer.body
        if body(waiting.request, form) == body(waiting.request, waiting.form):
            return False
        self._form = self._form.without(outcome.complaint)
        self._gather(waiting)
        return True

    # --- ends ---

    def _told(self, status: BatchStatus) -> None:
        self._room.note(status)
        self._progress(status)

    def _stop(self, error: ModelError) -> None:
        """Tell everybody who waits why nothing comes any more."""
        self._final = error
        self._gathering.drop()
        for key in list(self._waiting):
            self._tell(key, _again(error))
        current = asyncio.current_task()
        for batch in self._under_way.values():
            if batch.task is not None and batch.task is not current:
                batch.task.cancel()

    def _look_after(self, task: asyncio.Task[None]) -> None:
        """What nobody foresaw must not leave anybody waiting for ever."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            for waiting in list(self._waiting.values()):
                if not waiting.answer.done():
                    waiting.answer.set_exception(error)
            self._waiting.clear()


def _line(key: str, body: bytes) -> bytes:
    head = f'{OPENING}{canonical_json(key)},"method":"POST","url":"{ENDPOINT}","body":'
    return b"".join((head.encode(), body, b"}\n"))


def _again(error: ModelError) -> ModelError:
    """The same for another caller: an exception keeps where it was raised."""
    return ModelError(error.reason, str(error), retry_after=error.retry_after)


def _shared(answer: asyncio.Future[Reply]) -> Reply:
    """Another caller's reply: what it cost is in that one's books."""
    error = answer.exception()
    if isinstance(error, ModelError):
        raise _again(error)
    return replace(answer.result(), kept=True)


QUIET = 2.0
"""Seconds without a new request after which a batch goes."""

INTERVAL = 30.0
"""Seconds between two looks at a batch, to begin with."""

MOST = 50_000
"""Requests that a provider takes in one file."""

MOST_BYTES = 90 << 20
"""Bytes of a file. OpenAI takes 200 MB; others that speak the same way take 100 MB."""


class Batches:
    """A model of an OpenAI-compatible endpoint, asked in batches.

    Requests are gathered, sent as a file, and answered when the provider is
    done with it, which may take a day. Replies are those of a live call, so
    they are kept under the same keys. What is under way is in a folder: a
    process that ends, however it does, loses nothing, and the next one with
    the same folder sends nothing again.

    Args:
        name: the model's, as the endpoint knows it.
        settings: where the endpoint is, and how it is to sample; the timeout
            is that of each call to it, and not of a batch.
        folder: where batches are kept; one process at a time works in it.
        quiet: seconds without a new request after which a batch goes.
        interval: seconds between two looks at a batch, to begin with.
        progress: is told how batches stand, at every look.
        most: requests of a batch at most.
        most_bytes: bytes of a batch's file at most.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        folder: Path,
        quiet: float = QUIET,
        interval: float = INTERVAL,
        progress: Callable[[BatchStatus], None] | None = None,
        *,
        most: int = MOST,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.name = name
        self._settings = settings
        self._folder = folder
        self._terms = Terms(quiet, interval, most, most_bytes, progress or _untold)
        self._live = OpenAI(name, settings)
        self._reading = Reading(name)
        self._desk: Desk | None = None

    @property
    def identity(self) -> str:
        return self._live.identity

    @property
    def notice(self) -> str:
        return self._live.notice

    async def answer(self, request: Request) -> Reply:
        reply = await (await self._opened()).reply(request)
        if isinstance(request.call, ExecuteStep) and request.call.document is not None:
            self._reading.check(request.call.document, reply.usage)
        return reply

    async def close(self) -> None:
        """Give back what is held open; batches run on at the provider, and are met again."""
        desk, self._desk = self._desk, None
        if desk is not None:
            await (desk.close() if desk.loop is asyncio.get_running_loop() else desk.leave())

    async def _opened(self) -> Desk:
        desk = self._desk
        if desk is not None and desk.loop is not asyncio.get_running_loop():
            self._desk = None
            await desk.leave()
        if self._desk is None:
            self._desk = self._open()
        return self._desk

    def _open(self) -> Desk:
        settings, url = self._settings, self._settings.base_url or OPENAI
        return Desk(
            self.identity,
            Writer(self.name, settings.temperature, settings.max_tokens),
            first_form(self.name, url, settings.prompt_cache),
            Wire(settings, self._hidden),
            Folder(self._folder),
            self._hidden,
            self._terms,
        )

    def _hidden(self, text: str) -> str:
        """A text of the endpoint's without the key, which some endpoints repeat."""
        secret = self._settings.api_key.get_secret_value()
        return text.replace(secret, "***") if len(secret) >= SECRET_LENGTH else text


def open_batches(
    name: str,
    folder: Path,
    quiet: float = QUIET,
    interval: float = INTERVAL,
    progress: Callable[[BatchStatus], None] | None = None,
) -> Batches:
    """A model of the endpoint that the environment names, asked through its Batch API.

    Args:
        name: the model's.
        folder: where batches are kept.
        quiet: seconds without a new request after which a batch goes.
        interval: seconds between two looks at a batch, to begin with.
        progress: is told how batches stand.

    Raises:
        InputError: a setting is missing or wrong, or the model is none of an endpoint.
    """
    from pearl.models.choose import read_settings

    name = name.strip()
    if not name or name == "offline" or name.startswith("recorded:"):
        raise InputError(
            "The Batch API needs a model of an endpoint: add --model NAME, or ask live."
        )
    return Batches(name, read_settings(name), folder, quiet, interval, progress)


def _untold(_: BatchStatus) -> None:
    return
