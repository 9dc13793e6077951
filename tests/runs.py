"""What a store holds, as tests look at it."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from pearl.runtime.calls import Entry
from pearl.store.database import open_database
from pearl.store.history import RunRow, list_runs, read_entries


def runs(store: Path | str) -> list[RunRow]:
    """The runs of a store, the last one first."""
    engine = open_database(str(store))
    try:
        return list_runs(engine, time.time())
    finally:
        engine.dispose()


def entries(store: Path | str, item: str | None = "") -> list[Entry]:
    """The journal of the last run of a store."""
    engine = open_database(str(store))
    try:
        last = list_runs(engine, time.time())[0]
        return list(read_entries(engine, last, item))
    finally:
        engine.dispose()


def back_to_first_version(database: sqlite3.Connection) -> None:
    """Make a store's tables what they were before reviews, and before calls' times were kept."""
    names = "SELECT name FROM sqlite_master WHERE name LIKE 'review_%' AND type = 'table'"
    for (name,) in database.execute(names).fetchall():
        database.execute(f"DROP TABLE {name}")
    database.execute("ALTER TABLE entries DROP COLUMN started")
    database.execute("UPDATE pearl_version SET version_num = '0001'")
    database.commit()
