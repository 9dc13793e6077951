"""A budget that several processes share, on either kind of database."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from pearl.models.middleware.budget import Amount, Ceiling, Grant
from pearl.store.store import Store, StoreLedger, open_store

pytest_plugins = ["tests.postgres"]

CEILING = Ceiling(tokens=1000, cost=500)


def ledger(store: Store, ceiling: Ceiling = CEILING) -> StoreLedger:
    return StoreLedger(store, "run", ceiling)


def test_a_call_is_granted_made_to_wait_or_refused(place: str):
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

    store = open_store(place)
    granted, wait, refused = Grant.GRANTED, Grant.WAIT, Grant.REFUSED
    assert asyncio.run(scenario()) == [granted, wait, refused, refused, granted]
    store.close()


def test_two_stores_share_one_ceiling(place: str):
    async def one(store: Store) -> int:
        own, granted = ledger(store), 0
        for _ in range(12):
            if await own.reserve(Amount(50, 1)) is Grant.GRANTED:
                granted += 1
                await own.settle(Amount(50, 1), Amount(50, 1))
        return granted

    async def both() -> list[int]:
        return await asyncio.gather(*(one(store) for store in stores))

    stores = [open_store(place), open_store(place)]
    ledger(stores[0]).open(Amount())
    asyncio.run(stores[0].flush())
    assert sum(asyncio.run(both())) == 20
    for store in stores:
        store.close()


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


def test_a_dead_process_s_reservations_count_as_spent(place: str):
    done = subprocess.run([sys.executable, "-c", HOLDING, place], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (-9, "GRANTED\n"), done.stderr

    async def scenario() -> list[Grant]:
        own = ledger(store, Ceiling(tokens=1000))
        return [await own.reserve(Amount(100, 0)), await own.reserve(Amount(101, 0))]

    store = open_store(place)
    assert asyncio.run(scenario()) == [Grant.GRANTED, Grant.REFUSED]
    # And so they do in the run's next go, whose journal knows nothing of them.
    ledger(store).open(Amount(50, 0))
    assert asyncio.run(ledger(store).spent()) == Amount(1000, 0)
    store.close()


def test_what_was_under_way_at_a_kill_counts_beside_what_a_go_without_a_limit_has_spent(place: str):
    store = open_store(place)
    asyncio.run(ledger(store).reserve(Amount(5, 1)))
    ledger(store).open(Amount(30, 3))
    assert asyncio.run(ledger(store).spent()) == Amount(35, 4)
    # And so it does after one more of either kind.
    ledger(store).open(Amount(30, 3))
    ledger(store).open(Amount(50, 5))
    assert asyncio.run(ledger(store).spent()) == Amount(55, 6)
    store.close()


@pytest.mark.parametrize("go", range(2))
def test_a_run_s_ledger_begins_with_what_it_has_spent(place: str, go: int):
    store = open_store(place)
    for spent in (Amount(10, 1), Amount(20, 2))[: go + 1]:
        ledger(store).open(spent)
    assert asyncio.run(ledger(store).spent()) == Amount(10 * (go + 1), go + 1)
    store.close()
