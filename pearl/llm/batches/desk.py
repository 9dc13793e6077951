"""Who waits for what: requests on one side, batches on the other, within one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pearl.llm.batches.course import Course
from pearl.llm.batches.folder import OPENING, Folder
from pearl.llm.batches.gathering import Gathering
from pearl.llm.batches.results import Outcome, left_out, read_outcomes
from pearl.llm.batches.room import Room
from pearl.llm.batches.seen import Seen
from pearl.llm.batches.shelf import Shelf
from pearl.llm.batches.terms import BatchStatus, Terms
from pearl.llm.batches.wire import ENDPOINT, Wire
from pearl.llm.failures import Hidden
from pearl.llm.forms import Form
from pearl.llm.model import FINAL, ModelError, Reply, Request
from pearl.llm.wire import Writer
from pearl.values import canonical_json

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
