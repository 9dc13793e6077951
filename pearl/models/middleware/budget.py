"""The budget: stops before a call that would cost too much.

Each call reserves its expected tokens and cost before it is made, so that
concurrent calls cannot exceed a limit together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Protocol

from pearl.models.base import UNUSABLE, Ask, ModelError, Reply, Request, Usage
from pearl.models.middleware.rate_limit import HaltError

LOOK = 0.2
"""Seconds between two tries to reserve an amount, while other calls hold it."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Tokens, read and written, and their cost in millionths of a dollar."""

    tokens: int = 0
    cost: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.tokens + other.tokens, self.cost + other.cost)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.tokens - other.tokens, self.cost - other.cost)


class Grant(Enum):
    """Whether a ledger lets a call be made."""

    GRANTED = auto()
    WAIT = auto()
    REFUSED = auto()


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most tokens and millionths of a dollar to spend; None is no limit."""

    tokens: int | None = None
    cost: int | None = None

    def holds(self, amount: Amount) -> bool:
        """Whether an amount is within it."""
        within_tokens = self.tokens is None or amount.tokens <= self.tokens
        return within_tokens and (self.cost is None or amount.cost <= self.cost)


def judge(ceiling: Ceiling, spent: Amount, reserved: Amount, amount: Amount) -> Grant:
    """Whether a call may be made now, only once others have ended, or not at all."""
    if not ceiling.holds(spent + amount):
        return Grant.REFUSED
    return Grant.GRANTED if ceiling.holds(spent + reserved + amount) else Grant.WAIT


class Ledger(Protocol):
    """Adds up the spending of one process, or of several."""

    async def reserve(self, amount: Amount) -> Grant:
        """Reserve an amount, if that is granted."""

    async def settle(self, reserved: Amount, spent: Amount) -> None:
        """Replace a reserved amount with the one that was spent."""

    async def spent(self) -> Amount:
        """What has been spent so far."""


class MemoryLedger(Ledger):
    """A ledger of one process; ``ceiling`` is what may be spent."""

    def __init__(self, ceiling: Ceiling) -> None:
        self._ceiling = ceiling
        self._spent = self._reserved = Amount()

    async def reserve(self, amount: Amount) -> Grant:
        grant = judge(self._ceiling, self._spent, self._reserved, amount)
        if grant is Grant.GRANTED:
            self._reserved += amount
        return grant

    async def settle(self, reserved: Amount, spent: Amount) -> None:
        self._reserved -= reserved
        self._spent += spent

    async def spent(self) -> Amount:
        return self._spent


BILLED = UNUSABLE | {"timeout", "connection", "refusal", "cut"}
"""Reasons of errors that leave open what a call cost, if it was sent."""


@dataclass
class Budget:
    """Makes a call if the ledger grants it: each try by itself, as each is paid for.

    Tokens that an endpoint does not report count as expected. So do those of a call that is
    cancelled, as nobody learns how many they were.

    Args:
        ask: makes the call.
        ledger: adds up the spending.
        ceiling: what may be spent, for messages.
        expect: gives the tokens that a request may take.
        price: gives the cost of tokens, in millionths of a dollar.
        sleep: waits some seconds, or raises a `HaltError` once no further call is made.
    """

    ask: Ask
    ledger: Ledger
    ceiling: Ceiling
    expect: Callable[[Request], Usage]
    price: Callable[[Usage], int]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _longest: int = field(default=0, init=False)

    async def __call__(self, request: Request) -> Reply:
        """Answer; a `HaltError` where the call would exceed the budget."""
        expected = self.expect(request)
        limit = expected.completion_tokens
        # An endpoint that has ignored the limit once may do so again.
        expected = replace(expected, completion_tokens=max(limit, self._longest))
        amount = self._amount(expected)
        while (grant := await self.ledger.reserve(amount)) is not Grant.GRANTED:
            if grant is Grant.REFUSED:
                spent, most = await self.ledger.spent(), self.ceiling
                over = most.tokens is not None and (
                    most.cost is None or spent.tokens + amount.tokens > most.tokens
                )
                raise HaltError(
                    "budget",
                    f"The next call may take {amount.tokens:,} tokens, and {spent.tokens:,} of "
                    f"{most.tokens:,} are spent: raise --max-tokens."
                    if over
                    else f"The next call may cost ${amount.cost / 1e6:.4f}, and "
                    f"${spent.cost / 1e6:.4f} of ${(most.cost or 0) / 1e6:.4f} are spent: raise "
                    "--max-cost.",
                )
            await self.sleep(LOOK)
        usage = expected
        try:
            reply = await self.ask(request._replace(limit=limit))
            usage = _usage_or(reply.usage, expected)
            self._longest = max(self._longest, usage.completion_tokens)
            return replace(reply, usage=usage)
        except ModelError as error:
            unknown = error.reason in BILLED and error.sent and not error.status
            if unknown or error.usage != Usage():
                error.usage = _usage_or(error.usage, expected)
            usage = error.usage
            raise
        finally:
            await self.ledger.settle(amount, self._amount(usage))

    def _amount(self, usage: Usage) -> Amount:
        return Amount(usage.total, self.price(usage))


def _usage_or(usage: Usage, expected: Usage) -> Usage:
    """The tokens that an endpoint reports; where it reports none, those that were expected."""
    return Usage(
        usage.prompt_tokens or expected.prompt_tokens,
        usage.completion_tokens or expected.completion_tokens,
        usage.cached_tokens,
    )
