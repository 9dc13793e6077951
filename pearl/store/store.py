"""The interface of the store, and the ledger in which several processes share a budget."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, Row, delete, select, text

from pearl.models.base import Reply
from pearl.models.middleware.budget import Amount, Ceiling, Grant, judge
from pearl.runtime.calls import Entry, Journal
from pearl.store import statements
from pearl.store.database import is_dead, new_owner, open_database
from pearl.store.statements import insert_into
from pearl.store.tables import PLAIN, TOKENS, ledger
from pearl.store.writer import LoopWriter, ThreadWriter, Writer

_write = json.JSONEncoder(ensure_ascii=False).encode
_counts = attrgetter(*TOKENS)
_plain = attrgetter(*PLAIN, *(f"usage.{name}" for name in TOKENS))


class Store:
    """Runs, journals and the cache, in one database; safe for several processes at once.

    Args:
        engine: the database.
        place: its address, as a person wrote it.
    """

    def __init__(self, engine: Engine, place: str) -> None:
        self.engine = engine
        self.place = place
        self.owner = new_owner()
        make = LoopWriter if engine.dialect.name == "sqlite" else ThreadWriter
        self.writer: Writer = make(engine, (statements.renew, self.owner))

    def start(
        self, kind: str, head: dict[str, Any], fingerprint: str = "", *, own: bool = False
    ) -> str:
        """Start a new run, and return its name, which sorts by time.

        Args:
            kind: the command that makes it, as ``ask`` or ``batch``.
            head: what is run on what, as JSON data.
            fingerprint: identifies the work, so that the run can be resumed.
            own: whether its replies are kept apart from the common cache.
        """
        now = time.time()
        name = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{secrets.token_hex(3)}"
        row = {
            "id": name,
            "kind": kind,
            "fingerprint": fingerprint,
            "scope": name if own else "",
            "owner": self.owner,
            "started": now,
            "seen": now,
            "ended": None,
            "head": storable(_write(head)),
        }
        self.writer.post(statements.put_runs, row)
        return name

    def resume(self, run: str, head: dict[str, Any]) -> None:
        """Resume a run that stopped, with a new head."""
        row = {"id": run, "owner": self.owner, "seen": time.time(), "ended": None}
        self.writer.post(statements.put_runs, row | {"head": storable(_write(head))})

    def end(self, run: str) -> None:
        """Record that a run has ended."""
        self.writer.post(statements.end_runs, run)

    def journal(self, run: str, item: str = "") -> Journal:
        """The journal of a run, or of one question of a batch."""

        def write(entry: Entry) -> None:
            # A call's text is in the table of replies already.
            value = storable(_write(entry.value)) if entry.kind == "decision" else None
            row = dict(zip((*PLAIN, *TOKENS), _plain(entry), strict=True))
            row |= {"run": run, "item": item, "path": storable(entry.path), "value": value}
            row["cause"] = storable(entry.cause)
            self.writer.post(statements.add_entries, row)

        return Journal(run, write, self.flush)

    async def claim(self, scope: str, key: str) -> Reply | bool:
        """The stored reply to a call, or a claim on making it.

        Returns:
            The reply; or True: the caller makes the call, and then calls `put` or
            `release`; or False: another process is making it.
        """
        reply: Reply | bool = await self.writer.ask(
            statements.claim, statements.Claim(scope, key, self.owner)
        )
        return reply

    def put(self, scope: str, key: str, reply: Reply, model: str, identity: str) -> Reply:
        """Store a reply, and return it as it is stored."""
        text = storable(reply.text)
        row = {
            "scope": scope,
            "key": key,
            "text": text,
            "complete": reply.complete,
            **dict(zip(TOKENS, _counts(reply.usage), strict=True)),
            "model": model,
            "identity": storable(identity),
            "created": time.time(),
        }
        self.writer.post(statements.add_replies, row)
        return reply if text is reply.text else replace(reply, text=text)

    def release(self, scope: str, key: str) -> None:
        """Give up a claim on a call that got no reply."""
        self.writer.post(statements.give_up, statements.Claim(scope, key, self.owner))

    def put_row(self, row: dict[str, Any]) -> None:
        """Store the result of a batch's question."""
        self.writer.post(statements.put_rows, row)

    def move_row(self, run: str, id: str, position: int) -> None:
        """Change a question's position in its file."""
        self.writer.post(statements.move_rows, {"r": run, "i": id, "p": position})

    def drop_row(self, run: str, id: str) -> None:
        """Delete the result of a question that has changed or is no longer asked."""
        self.writer.post(statements.drop_rows, {"r": run, "i": id})

    async def flush(self) -> None:
        """Wait until everything so far is committed."""
        await self.writer.ask(None, None)

    def close(self) -> None:
        """Commit everything and close the database."""
        self.writer.post(statements.forget_owner, self.owner)
        self.writer.close()
        self.engine.dispose()


def open_store(place: str) -> Store:
    """Open the store at a file's path or a database's address; it is created if it is missing.

    Raises:
        InputError: it cannot be used.
    """
    return Store(open_database(place), place)


def storable(text: str) -> str:
    """A text as every database takes it: without lone surrogates and NUL."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")


class _Bill(NamedTuple):
    """A change of the amounts that a process has spent and reserved; it may be negative."""

    run: str
    owner: str
    spent: Amount
    reserved: Amount


class StoreLedger:
    """Adds up what every process of a run spends and reserves.

    The amounts that a dead process had reserved count as spent, because its calls may have been
    paid for.

    Args:
        store: the store that has the ledger.
        run: the run's name.
        ceiling: what may be spent.
    """

    def __init__(self, store: Store, run: str, ceiling: Ceiling) -> None:
        self._store = store
        self._run = run
        self._ceiling = ceiling

    def open(self, spent: Amount) -> None:
        """Open the ledger of a run with the spending in its journal. What the ledger has beyond
        that counts too, as do amounts that were reserved and never settled."""
        self._store.writer.post(_open, _Bill(self._run, "", spent, Amount()))

    async def reserve(self, amount: Amount) -> Grant:
        """Reserve an amount, if that is granted."""
        bill = _Bill(self._run, self._store.owner, Amount(), amount)
        verdict: Grant = await self._store.writer.ask(_reserve, (self._ceiling, bill))
        return verdict

    async def settle(self, reserved: Amount, spent: Amount) -> None:
        """Replace a reserved amount with the one that was spent."""
        bill = _Bill(self._run, self._store.owner, spent, Amount() - reserved)
        self._store.writer.post(_settle, bill)

    async def spent(self) -> Amount:
        """The amount that the run has spent so far."""
        amount: Amount = await self._store.writer.ask(_spent, self._run)
        return amount


def _open(connection: Connection, changes: list[_Bill]) -> None:
    for bill in changes:
        accounts = _accounts(connection, bill.run)
        spent = sum((spent for _, spent, _ in accounts), Amount())
        # Spending without a limit is in the journal only; that before a kill, in the ledger only.
        spent = Amount(max(spent.tokens, bill.spent.tokens), max(spent.cost, bill.spent.cost))
        reserved = sum((reserved for _, _, reserved in accounts), Amount())
        connection.execute(delete(ledger).where(ledger.c.run == bill.run))
        # Without an owner, so that it counts as reserved by a dead process.
        _add(connection, bill._replace(spent=spent, reserved=reserved))


def _reserve(connection: Connection, changes: list[tuple[Ceiling, _Bill]]) -> list[Grant]:
    verdicts = []
    for ceiling, bill in changes:
        _lock_ledger(connection, bill.run)
        spent, reserved = _sums(connection, bill.run)
        verdicts.append(judge(ceiling, spent, reserved, bill.reserved))
        if verdicts[-1] is Grant.GRANTED:
            _add(connection, bill)
    return verdicts


def _settle(connection: Connection, changes: list[_Bill]) -> None:
    for bill in changes:
        _lock_ledger(connection, bill.run)
        _add(connection, bill)


def _spent(connection: Connection, changes: list[str]) -> list[Amount]:
    return [_sums(connection, run)[0] for run in changes]


def _sums(connection: Connection, run: str) -> tuple[Amount, Amount]:
    """The amounts that a run has spent, with what dead processes had reserved, and reserved."""
    now, spent, reserved = time.time(), Amount(), Amount()
    for row, own, held in _accounts(connection, run):
        spent += own
        if is_dead(row.owner, row.seen, now):
            spent += held
        else:
            reserved += held
    return spent, reserved


def _accounts(connection: Connection, run: str) -> list[tuple[Row[Any], Amount, Amount]]:
    """A run's rows of the ledger, each with what its process has spent and reserved."""
    return [
        (row, Amount(row.tokens, row.cost), Amount(row.reserved_tokens, row.reserved_cost))
        for row in connection.execute(select(ledger).where(ledger.c.run == run))
    ]


def _add(connection: Connection, bill: _Bill) -> None:
    """Add a bill to what its process has spent and reserved so far."""
    row = insert_into(ledger, connection.dialect.name).values(
        run=bill.run,
        owner=bill.owner,
        seen=time.time(),
        tokens=bill.spent.tokens,
        cost=bill.spent.cost,
        reserved_tokens=bill.reserved.tokens,
        reserved_cost=bill.reserved.cost,
    )
    amounts = ("tokens", "cost", "reserved_tokens", "reserved_cost")
    sums = {name: ledger.c[name] + row.excluded[name] for name in amounts}
    changed = {**sums, "seen": row.excluded.seen}
    connection.execute(row.on_conflict_do_update(index_elements=["run", "owner"], set_=changed))


def _lock_ledger(connection: Connection, run: str) -> None:
    """Keep two processes from both being granted the last amount; a file has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:run))"), {"run": run})
