"""Kills a batch at every commit of its store, and prints one table.

    python -m benchmarks.attack [--questions 3]

Held: one line or none, the store passes SQLite's check, and the same command then ends with the
answers of a batch that nobody attacked. `benchmarks.crash` and `benchmarks.faults` have kills at
random and endpoints that misbehave.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from sqlalchemy import Engine, event

# Imported before the many processes part, so that each starts at once.
import pearl.jobs.batch
import pearl.models.offline
import pearl.store.store  # noqa: F401
from pearl.cli import main

COMMAND = "batch q.jsonl -o a.jsonl --model offline --store s.db"
TEXT = "Mara left the lighthouse, as the Fund had closed it. Tom was sorry. " * 20


def go(prepare: Callable[[], None] = lambda: None) -> tuple[int, str]:
    """Run the batch in a process of its own: how it ended, and what it said."""
    if not (child := os.fork()):
        told = os.open("told", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.dup2(told, 1)
        os.dup2(told, 2)
        sys.argv = ["pearl", *COMMAND.split()]
        prepare()
        try:
            main()
        except SystemExit as ended:
            os._exit(ended.code if isinstance(ended.code, int) else 1)
        except BaseException:  # noqa: BLE001 - as Python would show it
            os.write(2, b"Traceback")
        os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, Path("told").read_text(encoding="utf-8", errors="replace")


def killed(number: int, after: bool) -> Callable[[], None]:
    """Dies just before, or just after, its so-manieth transaction is committed."""
    seen = [0]

    def count(*_: object) -> None:
        seen[0] += 1
        if seen[0] == number:
            os.kill(os.getpid(), signal.SIGKILL)

    # A connection goes back to the pool when its transaction is on disk.
    kind = "checkin" if after else "commit"

    def prepare() -> None:
        from sqlalchemy.pool import Pool

        event.listen(Pool if after else Engine, kind, count)

    return prepare


def sound() -> bool:
    """Whether the store passes SQLite's own check."""
    with closing(sqlite3.connect("s.db")) as store:
        return store.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def rows() -> list[str]:
    """The answers, without what tells runs apart."""
    return Path("a.jsonl").read_text(encoding="utf-8").splitlines()


def cleared() -> None:
    """Nothing of an earlier attack is left."""
    for name in ("s.db", "s.db-wal", "s.db-shm", "a.jsonl"):
        Path(name).unlink(missing_ok=True)


def held(prepare: Callable[[], None], expected: list[str]) -> tuple[bool, bool]:
    """Attack a fresh batch: whether it was met, and whether it held."""
    cleared()
    code, told = go(prepare)
    fine = "Traceback" not in told and (not Path("s.db").exists() or sound())
    return code != 0, fine and go()[0] == 0 and rows() == expected


def attack() -> None:
    """Attack, and print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--questions", type=int, default=3)
    count = options.parse_args().questions
    print(f"{'attack':34} {'tried':>6} {'held':>6} {'lost':>6}")

    def told(name: str, found: list[bool]) -> None:
        print(f"{name:34} {len(found):6} {sum(found):6} {found.count(False):6}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("a.txt").write_text(TEXT, encoding="utf-8")
        asked = [{"id": f"q{n}", "question": f"Why does Mara leave, {n}?", "document": "a.txt"}
                 for n in range(count)]  # fmt: skip
        Path("q.jsonl").write_text("\n".join(map(json.dumps, asked)), encoding="utf-8")
        assert go()[0] == 0, Path("told").read_text(encoding="utf-8")
        expected = rows()
        for after in (False, True):
            found: list[bool] = []
            while (tried := held(killed(len(found) + 1, after), expected))[0]:
                found.append(tried[1])
            told(f"killed just {'after' if after else 'before'} a commit", found)
        os.chdir("/")


if __name__ == "__main__":
    attack()
