"""Which batches are at the provider, for those that it had no room for."""

from __future__ import annotations

import asyncio

from pearl.llm.batches.seen import ENDS
from pearl.llm.batches.terms import BatchStatus


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
