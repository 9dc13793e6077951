"""Requests or tokens a minute."""

from __future__ import annotations

import asyncio

BURST = 1.0
"""Seconds' worth that may go at once after a quiet time: no minute exceeds its limit by more."""


class Pace:
    """Spreads amounts evenly over time.

    An amount larger than what is free goes through and leaves a debt, for
    which the next ones wait; so a call of more tokens than a second's worth
    is possible at all.

    Args:
        per_minute: how much may go in a minute.
    """

    def __init__(self, per_minute: float) -> None:
        self._rate = per_minute / 60
        self._free_at = 0.0

    async def take(self, amount: float) -> None:
        """Wait for one's turn; turns are given in the order of asking."""
        now = asyncio.get_running_loop().time()
        turn = max(self._free_at, now - BURST)
        self._free_at = turn + amount / self._rate
        if turn > now:
            await asyncio.sleep(turn - now)

    def correct(self, amount: float) -> None:
        """Account for what was taken too much or, where negative, too little of."""
        self._free_at += amount / self._rate
