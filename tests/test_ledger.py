"""A budget that several processes share, on either kind of database."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest

from pearl.models.middleware.budget import Amount, Ceiling, Grant
from pearl.store.store import Store, StoreLedger, open_store

pytest_plugins = ["tests.postgres"]

CEILING = Ceiling(tokens=1000, cost=500)


@pytest.fixture
def store(place: str) -> Iterator[Store]:
    with closing(open_store(place)) as store:
        yield store


def ledger(store: Store, ceiling: Ceiling = CEILING) -> StoreLedger:
    return StoreLedger(store, "run", ceiling)


def test_a_call_is_granted_made_to_wait_or_refused(store: Store):
    async def scenario() -> list[Grant]:
        one = ledger(store)
        one.open(Amount(200, 100))
        verdicts = [await one.reserve(Amount(500, 50))]
        verdicts.append(await one.reserve(Amount(500, 50)))
        verdicts.append(await one.reserve(Amount(801, 50)))
        verdicts.append(await one.reserve(Amount(10, 401)))
        await one.settle(Amount(500, 50), Amount(300, 30))
        verdicts.append(await one.reserve(Amount(500, 50)))
        assert await one.spent() == Amount(500, 130)
        return verdicts

    granted, wait, refused = Grant.GRANTED, Grant.WAIT, Grant.REFUSED
    assert asyncio.run(scenario()) == [granted, wait, refused, refused, granted]


def test_two_stores_share_one_ceiling(store: Store, place: str):
    async def one(store: Store) -> int:
        own, granted = ledger(store), 0
        for _ in range(12):
            if await own.reserve(Amount(50, 1)) is Grant.GRANTED:
                granted += 1
                await own.settle(Amount(50, 1), Amount(50, 1))
        return granted

    async def both() -> list[int]:
        return await asyncio.gather(one(store), one(other))

    ledger(store).open(Amount())
    asyncio.run(store.flush())
    with closing(open_store(place)) as other:
        assert sum(asyncio.run(both())) == 20


HOLDING = """
import asyncio, os, sys
from pearl.models.middleware.budget import Amount, Ceiling
from pearl.store.store import open_store
from pearl.store.store import StoreLedger
store = open_store(sys.argv[1])
ledger = StoreLedger(store, "run", Ceiling(tokens=1000))
async def main():
    await ledger.reserve(Amount(300, 0))
    await ledger.settle(Amount(300, 0), Amount(100, 0))
    print((await ledger.reserve(Amount(800, 0))).name, flush=True)
    await store.flush()
asyncio.run(main())
os.kill(os.getpid(), 9)
"""


def test_a_dead_process_s_reservations_count_as_spent(store: Store, place: str):
    done = subprocess.run([sys.executable, "-c", HOLDING, place], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (-9, "GRANTED\n"), done.stderr

    async def scenario() -> list[Grant]:
        own = ledger(store, Ceiling(tokens=1000))
        return [await own.reserve(Amount(100, 0)), await own.reserve(Amount(101, 0))]

    assert asyncio.run(scenario()) == [Grant.GRANTED, Grant.REFUSED]
    # And so they do in the run's next go, whose journal knows nothing of them.
    ledger(store).open(Amount(50, 0))
    assert asyncio.run(ledger(store).spent()) == Amount(1000, 0)


def test_what_was_under_way_at_a_kill_counts_beside_what_an_unlimited_go_has_spent(store: Store):
    asyncio.run(ledger(store).reserve(Amount(5, 1)))
    ledger(store).open(Amount(30, 3))
    assert asyncio.run(ledger(store).spent()) == Amount(35, 4)
    # And so it does after one more of either kind.
    ledger(store).open(Amount(30, 3))
    ledger(store).open(Amount(50, 5))
    assert asyncio.run(ledger(store).spent()) == Amount(55, 6)
