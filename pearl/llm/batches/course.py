"""A batch's course, from the file of its requests to the file of its answers.

What was sent is never sent again: how far a batch has come is recorded before
and after each call. Until a batch is submitted a failure is its requests', and
the engine asks again. From then on trouble with the endpoint is waited out,
as the batch runs on meanwhile.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from pearl.llm.batches.folder import Folder, State
from pearl.llm.batches.results import LARGEST_LINE
from pearl.llm.batches.seen import Seen
from pearl.llm.batches.terms import BatchStatus
from pearl.llm.batches.wire import Wire
from pearl.llm.model import FINAL, PASSING, ModelError

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
