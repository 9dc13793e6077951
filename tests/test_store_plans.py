"""No statement of the store looks at every row of a table that grows with the calls made."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from pearl.models.base import Reply, Usage
from pearl.models.middleware.budget import Amount, Ceiling
from pearl.runtime.calls import Entry
from pearl.store import cache, history, totals
from pearl.store.store import StoreLedger, open_store

LARGE = ("entries", "replies", "rows", "runs", "tags", "ledger")

WHOLE = {
    "SELECT replies.model, count(*)": "pearl cache stats counts every reply",
    "SELECT count(*) AS count_1 FROM runs": "pearl cache stats counts the runs",
    "SELECT count(*) AS count_1 FROM entries": "pearl cache stats counts the entries",
    "FROM replies ORDER BY replies.created": "pearl cache export without a run writes every reply",
    "DELETE FROM replies WHERE replies.created": "pearl cache prune looks at every reply once",
    "DELETE FROM entries WHERE entries.run IN": "pearl cache prune looks at every run",
    "DELETE FROM rows WHERE rows.run IN": "pearl cache prune looks at every run",
    "DELETE FROM ledger WHERE ledger.run IN": "pearl cache prune looks at every run",
    "DELETE FROM tags WHERE tags.run IN": "pearl cache prune looks at every run",
    "DELETE FROM runs WHERE runs.seen": "pearl cache prune looks at every run",
}
"""Parts of those statements that are to look at all of a table, and why."""


@pytest.fixture
def issued(tmp_path: Path) -> Iterator[tuple[Path, set[str]]]:
    """A store's file, and every statement that SQLite carries out meanwhile."""
    told: set[str] = set()

    def trace(connection: sqlite3.Connection, _: object) -> None:
        connection.set_trace_callback(told.add)

    event.listen(Engine, "connect", trace)
    yield tmp_path / "store.db", told
    event.remove(Engine, "connect", trace)


def use(file: Path) -> None:
    """Everything that a store is asked for."""
    store = open_store(str(file))
    engine = store.engine

    async def write(run: str) -> None:
        for key in ("a", "b", "c"):
            await store.claim("", key)
        await store.claim("", "a")
        store.put("", "a", Reply("said", Usage(1, 1)), "m", "m")
        store.release("", "b")
        await asyncio.gather(*(store.claim("", key) for key in ("a", "b")))
        store.journal(run, "q").record(Entry("call", "step/a", "said", "a"))
        await store.flush()
        for name in ("a", "b"):
            store.put_row({"run": run, "id": name, "position": 0, "row_key": "k",
                           "status": "answered", "result": "{}", "correct": None,
                           "score": None})  # fmt: skip
        store.move_row(run, "a", 1)
        store.drop_row(run, "b")
        ledger = StoreLedger(store, run, Ceiling(tokens=10))
        ledger.open(Amount())
        await ledger.reserve(Amount(1, 1))
        await ledger.settle(Amount(1, 1), Amount(1, 1))
        await ledger.spent()
        work, owner = store.writer._heartbeat[:2]
        await store.writer.ask(work, owner)

    run = store.start("batch", {"count": 1}, "same")
    asyncio.run(write(run))
    store.resume(run, {"count": 2})
    store.end(run)
    asyncio.run(store.flush())
    now = time.time()
    found = history.find_run(engine, run[:12], "here", now)
    history.find_run(engine, "last", "here", now)
    history.latest(engine, "same", now)
    history.list_runs(engine, now, 20)
    history.tag_run(engine, run, ["one", "two"])
    history.tag_run(engine, run, ["two"], off=True)
    words, share, before = ("mara",), {"least": 0.2, "most": 0.9}, (now, run)
    criteria = [{"kind": "batch"}, {"tag": "one"}, *({"status": one} for one in history.STATUSES)]
    for some in criteria:
        for more in ({}, {"words": words}, share, {"before": before}):
            history.list_runs(engine, now, 20, history.RunFilter(**some, **more))
    history.count_rows(engine, [run])
    history.count_rows(engine, [run], "pearl")
    totals.totals(engine, run, method="pearl")
    history.read_tags(engine, [run])
    history.in_use(engine)
    for item in (None, "q"):
        list(history.read_entries(engine, found, item))
        totals.totals(engine, run, item)
    totals.mean_seconds(engine, "m")
    totals.mean_seconds(engine, "m", alone=True)
    list(history.read_rows(engine, run))
    list(history.read_rows(engine, run, ["a"]))
    list(history.read_rows(engine, run, status="answered"))
    list(history.read_rows(engine, run, ["a"], "answered"))
    history.read_row_keys(engine, run)
    history.read_beside(engine, run, "a")
    history.read_identities(engine, found, ["a"])
    totals.totals_of_items(engine, run)
    totals.totals_of_items(engine, run, ["a"])
    for name in ("", run):
        list(cache.export(engine, name))
    cache.stats(engine)
    cache.prune(engine, now - 100)
    store.close()


def test_every_statement_finds_its_rows_by_an_index(issued: tuple[Path, set[str]]):
    file, told = issued
    use(file)
    statements = {" ".join(one.split()) for one in told}
    asked = {one for one in statements if re.match("SELECT|UPDATE|DELETE|INSERT", one)}
    assert len(asked) > 40
    unused = set(WHOLE)
    with closing(sqlite3.connect(file)) as connection:
        for statement in sorted(asked):
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}")]
            scanned = [step for step in plan if re.match(rf"SCAN ({'|'.join(LARGE)})\b", step)]
            if " LIMIT " in statement:
                # In the order of an index, and no further than rows are wanted.
                scanned = [step for step in scanned if " USING INDEX " not in step]
            allowed = {part for part in WHOLE if part in statement}
            unused -= allowed if scanned else set()
            assert not scanned or allowed, (statement, plan)
    assert not unused
