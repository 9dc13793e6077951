"""How the limit on calls under way adapts, and what the layers cost.

    python -m benchmarks.aimd

Simulated endpoints, in simulated time: one with room for 20 calls, one whose
room shrinks from 40 to 10 on the way, and one that takes longer the more it
has to do at a time. Then the layers without a store around a call that takes
no time at all, in real time.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from pearl.models.base import Reply, Request, Usage
from pearl.models.middleware.rate_limit import ConcurrencyLimiter, Throttle
from pearl.models.middleware.retry import Retry
from pearl.models.middleware.stack import start_engine
from tests.test_engine import Clock, Endpoint, Named, request

CALLS = 2000
AT_ONCE = 400


class Crowded(Endpoint):
    """Takes longer the more calls are under way, as a single processor does."""

    async def __call__(self, _: Request) -> Reply:
        self.asked += 1
        self.under_way += 1
        try:
            await asyncio.sleep(self.seconds * max(1.0, self.under_way / 10))
        finally:
            self.under_way -= 1
        return Reply("fine")


class Free(Named):
    """Answers at once."""

    async def answer(self, request: Request) -> Reply:
        return Reply("fine")


def main() -> None:
    _simulate("room for 20", Endpoint(0.05, 20), CALLS * 0.05 / 20)
    shrinking = Endpoint(0.05, 40)
    _simulate("40, then 10", shrinking, CALLS * 0.05 * (1 / 80 + 1 / 20), _shrink)
    _simulate("slower with load", Crowded(), CALLS * 0.05 / 10)
    print(f"the layers without a store: {asyncio.run(_cost()):.0f} µs a call")


def _shrink(number: int, endpoint: Endpoint) -> None:
    if number == CALLS // 2:
        endpoint.room = 10


def _simulate(
    name: str,
    endpoint: Endpoint,
    ideal: float,
    before: Callable[[int, Endpoint], None] = lambda _, __: None,
) -> None:
    limits: list[int] = []
    with Clock() as loop:
        limiter, gate = ConcurrencyLimiter(), asyncio.Semaphore(AT_ONCE)
        ask = Retry(Throttle(endpoint, limiter, None, None, lambda _: Usage()), limiter, tries=50)

        async def one(number: int) -> None:
            async with gate:
                before(number, endpoint)
                await ask(request())
                limits.append(limiter.limit)

        async def everything() -> float:
            started = loop.time()
            await asyncio.gather(*(one(number) for number in range(CALLS)))
            return loop.time() - started

        seconds = loop.run_until_complete(everything())
    share = 100 * endpoint.refused / endpoint.asked
    told = " ".join(str(limit) for limit in limits[:: CALLS // 10])
    print(f"{name:17} {share:4.1f} % refused, {ideal / seconds:.2f} of the ideal, limits {told}")


async def _cost() -> float:
    ask, calls, workers = start_engine(Free()).ask, 50_000, 64

    async def work() -> None:
        for _ in range(calls // workers):
            await ask(request())

    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(workers)))
    return 1e6 * (time.perf_counter() - started) / calls


if __name__ == "__main__":
    main()
