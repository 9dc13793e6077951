"""Attacks batches where they are weakest, and prints one table: tried, held, lost.

    python -m benchmarks.attack [ATTACK…] [--questions 3] [--kills 20] [--asked 100] [--postgres]

A batch holds where it ends with one line, or with none; where its store passes SQLite's check;
where the same command, once the attack is over, ends with the answers of a batch that nobody
attacked; and where no call is paid for again whose reply was kept. What is lost is said below.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sqlalchemy import Engine, event
from sqlalchemy.pool import Pool

# Imported before the many processes part, so that each starts at once.
import pearl.cli.batch
import pearl.cli.runs
import pearl.jobs.batch
import pearl.models.offline
import pearl.store.store  # noqa: F401
from benchmarks.attack_calls import Books, crash, uninterrupted
from benchmarks.stub import Stub
from benchmarks.stub_faults import FAULTS, USUAL
from pearl.cli import main
from tests.batches import Batch, write_batch

BATCH = "batch q.jsonl -o a.jsonl --model offline --store s.db"
READERS = ("runs show last", "trace last/q0", "cache export -o c.jsonl")
MADE = ("s.db", "s.db-wal", "s.db-shm", "a.jsonl", "c.jsonl")
TEXT = "Mara left the lighthouse, as the Fund had closed it. Tom was sorry. " * 20
YEAR = 3.2e7
"""Seconds."""

STEP = 16
"""Kilobytes by which a full disk is larger each time."""

PAGE = 4096
"""Bytes of a page of a store."""

GOES = 8
"""How often a batch is run against an endpoint that misbehaves, at most."""

STOPPING = frozenset({"key", "quota", "rate_long"})
"""Faults that stop a batch, one of them or three that follow each other."""

Deed = Callable[[], object]


def nothing() -> None:
    """Leave the batch alone."""


@dataclass(frozen=True)
class Field:
    """Where batches are attacked: the working folder.

    Args:
        home: a folder beside it, which no attack touches.
        disk: whether the working folder is a disk of its own.
        expected: the answers of a batch that nobody attacked.
    """

    home: Path
    disk: bool
    expected: str = ""

    def run(self, prepare: Deed = nothing, words: str = BATCH) -> tuple[int, str]:
        """Run a command in a process of its own: how it ended, and what it said of it."""
        if not (child := os.fork()):
            said = os.open(self.home / "said", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(said, 2)
            sys.argv = ["pearl", *words.split()]
            try:
                prepare()
                main()
            except SystemExit as ended:
                os._exit(ended.code if isinstance(ended.code, int) else 1)
            except BaseException as error:  # noqa: BLE001 - as Python would show it
                os.write(2, f"Traceback: {error!r}".encode())
            os._exit(1)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return code, (self.home / "said").read_text(encoding="utf-8", errors="replace")

    def lost(self, prepare: Deed, words: str = BATCH, *, dies: bool = False) -> str:
        """Run a command under attack: what does not hold of its end; empty where all does."""
        code, said = self.run(prepare, words)
        if dies and code == -signal.SIGKILL:
            return ""
        lines = [line for line in said.splitlines() if line.startswith("pearl: ")]
        fine = code in (0, 1, 2) and "Traceback" not in said and len(lines) == bool(code)
        return "" if fine else f"{words}: ended with {code}: {said[-300:]}"

    def after(self, prepare: Deed = nothing) -> str:
        """Go on once the attack is over: what was lost."""
        with closing(sqlite3.connect("s.db")) as store:
            if (found := store.execute("PRAGMA integrity_check").fetchone()) != ("ok",):
                return f"the store: {found}"
        code, said = self.run(prepare)
        if code:
            return f"does not go on: {said[-300:]}"
        return "" if Path("a.jsonl").read_text("utf-8") == self.expected else "other answers"

    def clear(self) -> None:
        """Nothing of an earlier attack is left."""
        for name in MADE:
            Path(name).unlink(missing_ok=True)
        (self.home / "met").unlink(missing_ok=True)

    def at(self, number: int, deed: Deed, *, after: bool = False) -> Deed:
        """Prepares a process for a deed just before or after its ``number``-th transaction."""
        seen = [0]

        def count(*_: object) -> None:
            seen[0] += 1
            if seen[0] == number:
                (self.home / "met").touch()
                deed()

        # A connection goes back to the pool when its transaction is on disk.
        place, kind = (Pool, "checkin") if after else (Engine, "commit")
        return lambda: event.listen(place, kind, count)

    def everywhere(self, deed: Deed, then: Deed = nothing, *, after: bool = False) -> Iterator[str]:
        """A deed at each transaction in turn, each of a fresh batch, until a batch has no more."""
        for number in range(1, 1000):
            self.clear()
            lost = self.lost(self.at(number, deed, after=after), dies=deed is kill)
            Path().chmod(0o755)
            if not (self.home / "met").exists():
                return
            yield lost or self.after(then)


def kill() -> None:
    """As ``kill -9`` does."""
    os.kill(os.getpid(), signal.SIGKILL)


def earlier() -> None:
    """The clock goes back by a year."""
    now = time.time
    time.time = lambda: now() - YEAR


def prune() -> None:
    """Somebody lets go of every run of the store, of which the one at work is to stay."""
    with closing(sqlite3.connect("s.db")) as store:
        (at_work,) = store.execute("SELECT count(*) FROM runs WHERE ended IS NULL").fetchone()
    words = ("-m", "pearl", "cache", "prune", "--older-than", "0d", "--store", "s.db")
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)
    assert not at_work or "Let go of 0 runs" in done.stdout, done.stdout


def shut() -> None:
    """The folder may not be written any more, not even by root."""
    obey_modes()
    Path().chmod(0o555)


def obey_modes() -> None:
    """Have files' modes count for root too: the capabilities to override them are given up."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None)
    libc.capget(header, sets)
    # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, effective and permitted.
    for at in (0, 1):
        sets[at] &= ~0b110
    assert libc.capset(header, sets) == 0


def read_only(field: Field) -> Iterator[str]:
    """The folder, the store or the answers may not be written from the start."""
    for name in (".", "s.db", "a.jsonl"):
        for begun in (False, True):
            field.clear()
            if begun:
                field.run(field.at(5, kill))
            path = Path(name)
            if not path.exists():
                path.touch()
            path.chmod(0o555 if name == "." else 0o444)
            lost = field.lost(obey_modes)
            path.chmod(0o755 if name == "." else 0o644)
            yield lost or field.after()


def full_disk(field: Field) -> Iterator[str]:
    """The disk has room for ever more of what a batch writes, then for all of it."""
    field.clear()
    field.run()
    for size in range(STEP, room() + 2 * STEP, STEP):
        field.clear()
        if field.disk:
            resize(f"{room() + size}k")
            lost = field.lost(nothing)
            resize("1g")
        else:
            limits = (resource.RLIMIT_FSIZE, (1024 * size, 1024 * size))
            lost = field.lost(partial(resource.setrlimit, *limits))
        yield lost or field.after()


def room() -> int:
    """Kilobytes that the working folder's own files take."""
    return sum(-(-path.stat().st_size // PAGE) * PAGE for path in Path().iterdir()) // 1024


def resize(size: str) -> None:
    """Make the disk of the working folder as large as that."""
    subprocess.run(["mount", "-o", f"remount,size={size}", os.getcwd()], check=True)


def corrupted(field: Field) -> Iterator[str]:
    """Each page of a store in turn is zeros, or noise: that is told, or the answers are right."""
    field.clear()
    field.run(field.at(8, kill))
    with closing(sqlite3.connect("s.db")) as store:
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole, drawn = Path("s.db").read_bytes(), random.Random(1)
    for at in range(0, len(whole), PAGE):
        for noise in (bytes(PAGE), drawn.randbytes(PAGE)):
            lost = ""
            for words in (*READERS, BATCH):
                field.clear()
                Path("s.db").write_bytes(whole[:at] + noise + whole[at + PAGE :])
                place = "" if words == BATCH else " --store s.db"
                lost = lost or field.lost(nothing, words + place)
            rows = Path("a.jsonl").read_text("utf-8") if Path("a.jsonl").exists() else ""
            wrong = set(rows.splitlines()) - set(field.expected.splitlines())
            yield lost or (f"page {at // PAGE}: a false answer" if wrong else "")


def in_flight(folder: Path, options: argparse.Namespace) -> Iterator[str]:
    """Kills with calls in flight, at random moments of one batch."""
    with ExitStack() as stack:
        stub = stack.enter_context(Stub(latency=0.05, jitter=0.02))
        store = "store.db"
        if options.postgres:
            from tests.postgres import running

            store = stack.enter_context(stack.enter_context(running()).database())
        batch = write_batch(folder, options.asked, stub, store, documents=20)
        expected = uninterrupted(batch.to(output="reference.jsonl", store="reference.db"))
        stub.reset()
        lost = ""
        try:
            crash(batch, stub, options.kills, expected, seed=7)
        except AssertionError as error:
            lost = why(error)
        yield from [lost] + [""] * (options.kills - 1)


def endpoint(folder: Path, kinds: tuple[str, ...], share: float, asked: int) -> str:
    """A batch against an endpoint that misbehaves, run until all is answered: what was lost."""
    with Stub(faults=share, faults_of=kinds, seed=3, stall=600, drip=1, prefix_cache=True) as stub:
        batch = write_batch(folder, asked, stub).to(options=("--max-wait", "2"))
        books = Books(batch, stub)
        try:
            for _ in range(GOES):
                if not (stopped(batch) if STOPPING.issuperset(kinds) else books.go().failed):
                    return ""
        except AssertionError as error:
            return f"{', '.join(kinds)}: {why(error)}"
    return f"{', '.join(kinds)}: not all are answered after {GOES} goes"


def why(error: AssertionError) -> str:
    """What was to hold, and did not."""
    return f"{traceback.extract_tb(error.__traceback__)[-1].line}: {error}"[:300]


def stopped(batch: Batch) -> bool:
    """Whether a batch was stopped: with one line, and no question failed for it."""
    done = batch.run()
    assert done.code in (0, 1), done.err
    assert "Traceback" not in done.err
    return done.code != 0


def attacks(options: argparse.Namespace, home: Path) -> dict[str, Callable[[Field], Iterator[str]]]:
    """Every attack by name, as what was lost by each try; empty where it held."""

    def fresh() -> Path:
        return Path(tempfile.mkdtemp(dir=home))

    def bad_endpoints(_: Field) -> Iterator[str]:
        for kind in FAULTS:
            yield endpoint(fresh(), (kind,), 0.05 if kind in STOPPING else 0.3, 6)

    return {
        "killed before a commit": lambda field: field.everywhere(kill),
        "killed after a commit": lambda field: field.everywhere(kill, after=True),
        "killed, then the clock goes back": lambda field: field.everywhere(kill, earlier),
        "the clock goes back at a commit": lambda field: field.everywhere(earlier),
        "the folder shut at a commit": lambda field: field.everywhere(shut),
        "runs let go after a commit": lambda field: field.everywhere(prune, after=True),
        "read-only folder, store, answers": read_only,
        "full disk": full_disk,
        "corrupted page": corrupted,
        "killed with calls in flight": lambda _: in_flight(fresh(), options),
        "bad endpoint, of each kind": bad_endpoints,
        "bad endpoint, all kinds mixed": lambda _: iter(
            [endpoint(fresh(), USUAL, 0.2, options.asked)]
        ),
    }


def attack() -> None:
    """Attack, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("attacks", nargs="*", help="words of their names; all by default")
    parser.add_argument("--questions", type=int, default=3, help="of a batch offline")
    parser.add_argument("--asked", type=int, default=100, help="questions of a batch on the stub")
    parser.add_argument("--kills", type=int, default=20, help="with calls in flight")
    parser.add_argument("--postgres", action="store_true", help="with calls in flight")
    options = parser.parse_args()
    losses: list[str] = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        home, place = Path(folder), Path(folder) / "attacked"
        place.mkdir()
        disk = has_disk(place)
        if disk:
            stack.callback(subprocess.run, ["umount", place], check=True)
        os.chdir(place)
        stack.callback(os.chdir, "/")
        Path("a.txt").write_text(TEXT, encoding="utf-8")
        asked = [{"id": f"q{n}", "question": f"Why does Mara leave, {n}?", "document": "a.txt"}
                 for n in range(options.questions)]  # fmt: skip
        Path("q.jsonl").write_text("\n".join(map(json.dumps, asked)), encoding="utf-8")
        assert Field(home, disk).run()[0] == 0, (home / "said").read_text(encoding="utf-8")
        field = Field(home, disk, Path("a.jsonl").read_text("utf-8"))
        print(f"{'attack':36} {'tried':>6} {'held':>6} {'lost':>6} {'seconds':>8}")
        for name, made in attacks(options, home).items():
            if options.attacks and not any(word in name for word in options.attacks):
                continue
            started = time.monotonic()
            found = list(made(field))
            losses += (lost := [f"{name}: {one}" for one in found if one])
            held = len(found) - len(lost)
            took = time.monotonic() - started
            print(f"{name:36} {len(found):6} {held:6} {len(lost):6} {took:8.0f}", flush=True)
    print("\n".join(losses))
    sys.exit(bool(losses))


def has_disk(place: Path) -> bool:
    """Whether a small disk of memory could be put at a folder."""
    with suppress(OSError):
        words = ["mount", "-t", "tmpfs", "-o", "size=1g", "tmpfs", place]
        return subprocess.run(words, capture_output=True).returncode == 0
    return False


if __name__ == "__main__":
    attack()
