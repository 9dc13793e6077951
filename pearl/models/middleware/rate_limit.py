"""Limits of requests and tokens a minute, and of concurrent calls.

The limit of concurrent calls adapts to the endpoint: it doubles each round
until something goes wrong, then grows by one each round, and is halved when the
endpoint refuses calls. This is additive increase and multiplicative decrease, as
in networks (Chiu and Jain, "Analysis of the increase and decrease
algorithms for congestion avoidance in computer networks", Computer Networks
and ISDN Systems 17(1), 1989).
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from pearl.models.base import Ask, FailedTry, ModelError, Reply, Request, Usage
from pearl.prompts.calls import ProveForm

BURST = 1.0
"""Seconds' worth that may go at once after a quiet time; no minute exceeds its limit by more."""


class RateLimiter:
    """Spreads amounts evenly over time.

    An amount that is larger than what is free is let through, and the next ones
    wait until it is made up for. So a call may have more tokens than a second's
    worth.

    Args:
        per_minute: the most that is let through in a minute.
    """

    def __init__(self, per_minute: float) -> None:
        self._rate = per_minute / 60
        self._free_at = 0.0

    async def take(self, amount: float) -> None:
        """Wait until an amount may be let through; turns are given in the order of asking."""
        now = asyncio.get_running_loop().time()
        turn = max(self._free_at, now - BURST)
        self._free_at = turn + amount / self._rate
        if turn > now:
            await asyncio.sleep(turn - now)

    def correct(self, amount: float) -> None:
        """Take a further amount without waiting; a negative one gives back what was too much."""
        self._free_at += amount / self._rate


FIRST = 8
"""The number of concurrent calls to begin with."""

CEILING = 256
"""The most concurrent calls, where the person names no number."""

CROWDED = frozenset({"rate", "timeout"})
"""Reasons of errors that are a sign of too many concurrent calls."""

FAILING = 20
"""The number of tries in a row, failed by the endpoint itself, after which only one call at a time
probes it. It is more than the tries of one request, which may itself be the cause."""

PROBES = 5
"""The endpoint counts as dead at this many failures: the `FAILING`th in a row, then probes."""

FIRST_PAUSE = 1.0
"""Seconds without a call before the first probe; before each further one twice as long."""

UNANSWERED = 15
"""The number of tries in a row without an answer after which the endpoint counts as dead;
concurrent tries count as one."""

SLOW = 2.5
"""The factor by which a round is slower than the fastest that is a sign of too many calls."""


class HaltError(ModelError):
    """A call was not sent, because the run has stopped; its earlier tries may have been sent."""

    def __init__(self, reason: str, message: str, attempts: tuple[FailedTry, ...] = ()) -> None:
        super().__init__(reason, message, attempts=attempts, sent=False)


class ConcurrencyLimiter:
    """Slots for concurrent calls, shared by all plans of a batch.

    Args:
        ceiling: the most concurrent calls.
        first: the most concurrent calls to begin with.
    """

    def __init__(self, ceiling: int = 0, first: int = FIRST) -> None:
        self._ceiling = float(ceiling or CEILING)
        self._limit = min(float(first), self._ceiling)
        self._doubling = True
        self._cut_at = -1.0
        self._round = _Round()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._resume_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._halted = asyncio.Event()
        self._probes = 0
        self._unanswered_at = -1.0
        self.unanswered = 0
        """The number of tries in a row without an answer."""
        self.in_flight = 0
        self.failed = 0
        """The number of tries in a row that the endpoint itself failed."""
        self.stopped: ModelError | None = None
        """Why no further call is made, or None."""

    @property
    def limit(self) -> int:
        """The most concurrent calls now."""
        return 1 if self.failed >= FAILING else int(self._limit)

    @property
    def dead(self) -> bool:
        """Whether the endpoint has long given nothing but failures, or no answers."""
        return self._probes >= PROBES or self.unanswered >= UNANSWERED

    async def enter(self, *, ahead: bool = False) -> float:
        """Wait for a slot, in the order of asking or ahead of all others, and return the time for
        `leave`; a `HaltError` once the run has stopped."""
        loop = asyncio.get_running_loop()
        self._check()
        turn: asyncio.Future[None] = loop.create_future()
        (self._waiting.appendleft if ahead else self._waiting.append)(turn)
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                # The slot was given in the moment of the cancellation.
                self.in_flight -= 1
                self._admit()
            else:
                turn.cancel()
            raise
        return loop.time()

    def leave(self, entered: float, error: ModelError | None = None, *, judge: bool = True) -> None:
        """Give a slot back, and report the outcome of the call.

        Args:
            entered: the time that `enter` gave.
            error: what went wrong, or None.
            judge: whether the outcome counts; not so for a call that was cancelled.
        """
        now = asyncio.get_running_loop().time()
        self.in_flight -= 1
        if judge:
            self._count(entered, now, error.reason if error else "")
        if judge and error is not None and error.reason in CROWDED:
            self._doubling = False
            # Calls that began before the last cut say nothing about the limit since then.
            if entered > self._cut_at:
                self._cut_at = now
                self._limit = max(1.0, self._limit / 2)
        elif judge and error is None:
            # A limit that is not reached says nothing about the endpoint.
            if self.in_flight + 1 >= self.limit or self._waiting:
                self._limit += 1.0 if self._doubling else 1.0 / self._limit
                self._limit = min(self._limit, self._ceiling)
            if self._round.add(now - entered, now, self._limit):
                self._doubling = False
                self._limit = max(1.0, 0.9 * self._limit)
        if self._waiting:
            self._admit()

    def _count(self, entered: float, now: float, reason: str) -> None:
        """Count failed tries in a row, which unanswered ones do not end, and unanswered ones."""
        if reason not in ("connection", "timeout"):
            self.unanswered = 0
        elif entered > self._unanswered_at:
            self.unanswered += 1
            self._unanswered_at = now
        if reason == "server":
            self.failed += 1
            # Calls that began before the pause are no probes.
            if self.failed >= FAILING and entered >= self._resume_at:
                self.pause(FIRST_PAUSE * 2**self._probes)
                self._probes += 1
        elif reason not in ("connection", "timeout"):
            self.failed = self._probes = 0

    def pause(self, seconds: float) -> None:
        """Hold all calls back for some seconds; a longer pause under way stays."""
        now = asyncio.get_running_loop().time()
        self._resume_at = max(self._resume_at, now + seconds)

    def stop(self, error: ModelError) -> None:
        """Stop: calls that wait fail with a `HaltError`; those under way go on."""
        self.stopped = self.stopped or error
        self._halted.set()
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(HaltError(self.stopped.reason, self.stopped.message))
        self._waiting.clear()

    async def sleep(self, seconds: float) -> None:
        """Sleep some seconds; a `HaltError` once the run has stopped."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._halted.wait()
        self._check()

    def _check(self) -> None:
        if self.stopped is not None:
            raise HaltError(self.stopped.reason, self.stopped.message)

    def _admit(self) -> None:
        """Give slots to those who wait, now or once a pause is over."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._resume_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(self._resume_at, self._admit)
            return
        while self._waiting and self.in_flight < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self.in_flight += 1
                turn.set_result(None)


@dataclass
class _Round:
    """Watches whether more concurrent calls still get more done."""

    _times: list[float] = field(default_factory=list)
    _since: float = 0.0
    _fastest: float = math.inf
    _best_rate: float = 0.0

    def add(self, seconds: float, now: float, limit: float) -> bool:
        """Add the seconds of a call; True if it ends a round that was slow and got no more done."""
        if not self._times:
            self._since = now - seconds
        self._times.append(seconds)
        if len(self._times) < max(32, int(limit)):
            return False
        middle = sorted(self._times)[len(self._times) // 2]
        rate = len(self._times) / max(now - self._since, 1e-9)
        self._times.clear()
        slow = middle > SLOW * self._fastest and rate < 1.05 * self._best_rate
        self._fastest = min(self._fastest, middle)
        self._best_rate = max(self._best_rate, rate)
        return slow


@dataclass(frozen=True)
class Throttle:
    """Makes a call once the rates allow it and there is a slot for it.

    Args:
        ask: makes the call.
        limiter: gives the slots.
        requests: requests a minute, or None.
        tokens: tokens a minute, or None.
        expect: the tokens that a request is expected to take.
    """

    ask: Ask
    limiter: ConcurrencyLimiter
    requests: RateLimiter | None
    tokens: RateLimiter | None
    expect: Callable[[Request], Usage]

    async def __call__(self, request: Request) -> Reply:
        """Answer; a `HaltError` once the run has stopped."""
        expected = 0
        if self.requests is not None:
            await self.requests.take(1)
        if self.tokens is not None:
            expected = self.expect(request).total
            await self.tokens.take(expected)
        # The result of a proof decides how the waiting calls are made.
        entered = await self.limiter.enter(ahead=isinstance(request.call, ProveForm))
        try:
            reply = await self.ask(request)
        except ModelError as error:
            self.limiter.leave(entered, error)
            raise
        except BaseException:
            self.limiter.leave(entered, judge=False)
            raise
        self.limiter.leave(entered)
        if self.tokens is not None and reply.usage.prompt_tokens:
            self.tokens.correct(reply.usage.total - expected)
        return reply
