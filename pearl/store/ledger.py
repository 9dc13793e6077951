"""A budget that several processes share."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import and_, delete, insert, select, text, update

from pearl.engine.budget import Amount, Ceiling, Verdict, judge
from pearl.store.owner import is_dead
from pearl.store.tables import ledger

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from pearl.store.store import Store


class _Wish(NamedTuple):
    run: str
    owner: str
    ceiling: Ceiling
    amount: Amount


class _Bill(NamedTuple):
    run: str
    owner: str
    reserved: Amount
    spent: Amount


class StoreLedger:
    """Adds up what every process of a run spends and reserves.

    A process that has died keeps what it spent; what it had reserved is free.

    Args:
        store: where the ledger is.
        run: the run's name.
        ceiling: what may be spent.
    """

    def __init__(self, store: Store, run: str, ceiling: Ceiling) -> None:
        self._store = store
        self._run = run
        self._ceiling = ceiling

    def open(self, spent: Amount) -> None:
        """Begin, or begin again, with what earlier goes have spent."""
        self._store.post(_open, _Bill(self._run, "", Amount(), spent))

    async def reserve(self, wanted: Amount) -> Verdict:
        """Set an amount aside, where it is granted."""
        wish = _Wish(self._run, self._store.owner, self._ceiling, wanted)
        verdict: Verdict = await self._store.ask(_reserve, wish)
        return verdict

    async def settle(self, reserved: Amount, spent: Amount) -> None:
        """Replace what was set aside with what it came to."""
        self._store.post(_settle, _Bill(self._run, self._store.owner, reserved, spent))

    async def spent(self) -> Amount:
        """What has been spent so far."""
        found: Amount = await self._store.ask(_spent, self._run)
        return found


def _open(connection: Connection, changes: list[_Bill]) -> None:
    for bill in changes:
        connection.execute(delete(ledger).where(ledger.c.run == bill.run))
        connection.execute(insert(ledger), _row(bill.run, bill.owner, bill.spent, Amount()))


def _reserve(connection: Connection, changes: list[_Wish]) -> list[Verdict]:
    now = time.time()
    verdicts = []
    for wish in changes:
        _one_at_a_time(connection, wish.run)
        rows = list(connection.execute(select(ledger).where(ledger.c.run == wish.run)))
        spent = sum((Amount(row.tokens, row.cost) for row in rows), Amount())
        alive = (row for row in rows if not is_dead(row.owner, row.seen, now))
        reserved = sum((Amount(row.reserved_tokens, row.reserved_cost) for row in alive), Amount())
        verdict = judge(wish.ceiling, spent, reserved, wish.amount)
        if verdict is Verdict.GRANTED:
            own = next((row for row in rows if row.owner == wish.owner), None)
            _add(connection, wish.run, wish.owner, own, Amount(), wish.amount)
        verdicts.append(verdict)
    return verdicts


def _settle(connection: Connection, changes: list[_Bill]) -> None:
    for bill in changes:
        _one_at_a_time(connection, bill.run)
        where = and_(ledger.c.run == bill.run, ledger.c.owner == bill.owner)
        own = connection.execute(select(ledger).where(where)).first()
        _add(connection, bill.run, bill.owner, own, bill.spent, Amount() - bill.reserved)


def _spent(connection: Connection, changes: list[str]) -> list[Amount]:
    found = []
    for run in changes:
        rows = connection.execute(select(ledger).where(ledger.c.run == run))
        found.append(sum((Amount(row.tokens, row.cost) for row in rows), Amount()))
    return found


def _add(
    connection: Connection,
    run: str,
    owner: str,
    own: Row[Any] | None,
    spent: Amount,
    reserved: Amount,
) -> None:
    if own is None:
        connection.execute(insert(ledger), _row(run, owner, spent, reserved))
        return
    where = and_(ledger.c.run == run, ledger.c.owner == owner)
    spent += Amount(own.tokens, own.cost)
    reserved += Amount(own.reserved_tokens, own.reserved_cost)
    connection.execute(update(ledger).where(where).values(_row(run, owner, spent, reserved)))


def _row(run: str, owner: str, spent: Amount, reserved: Amount) -> dict[str, Any]:
    return {
        "run": run,
        "owner": owner,
        "seen": time.time(),
        "tokens": spent.tokens,
        "cost": spent.cost,
        "reserved_tokens": reserved.tokens,
        "reserved_cost": reserved.cost,
    }


def _one_at_a_time(connection: Connection, run: str) -> None:
    """Two processes must not both be granted the last amount; a file has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:run))"), {"run": run})
