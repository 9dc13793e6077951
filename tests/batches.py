"""Batches as processes of their own against the stub: for tests and for benchmarks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.stub import Stub
from tests.forks import Fork
from tests.shell import Result, command, write_rows

LONGEST = 120
"""Seconds after which something is stuck for good."""

SENTENCES = (
    "Mara kept the lighthouse for nine years.",
    "Her brother Tom wanted the post, and said so to nobody.",
    "The Fund closed it in March, after the storm.",
    "She burned the letter before he came.",
    "Mrs Vane at the harbour office saw the smoke.",
)

GIVEN = """\
1. traits = FIND_TRAITS(CTX, "person {number}") : List what person {number} is like
2. shown = FIND_EVENT(CTX, "where person {number} is {{each traits}}") : Find where it shows
3. why = FIND_REASON(CTX, "person {number} leaves") : Find why
4. both = COMPREHEND(CTX, "{{why}}, given {{shown}}") : Explain it
5. ans = CONCAT(why, both) : Put together what was found
"""
"""A plan with a list that steps run over, and with steps that need others' outputs."""


@dataclass(frozen=True)
class Batch:
    """A file of questions, and the command that answers it.

    Args:
        folder: where the questions, the documents and the answers are.
        ids: the questions', in order.
        url: what OPENAI_BASE_URL is to be.
        store: a file's path or a database's address.
        output: the name of the file of answers.
        options: more words of the command.
    """

    folder: Path
    ids: tuple[str, ...]
    url: str
    store: str
    output: str = "answers.jsonl"
    options: tuple[str, ...] = ()

    @property
    def command(self) -> tuple[str, ...]:
        """What a person types after ``pearl``."""
        return ("batch", "questions.jsonl", "-o", self.output, "--json", *self.options)

    @property
    def answers(self) -> Path:
        return self.folder / self.output

    def start(self, **settings: str) -> subprocess.Popen[bytes]:
        """Start it, with more settings in its environment."""
        return self.process(self.command, **settings)

    def run(self, **settings: str) -> Result:
        """Run it to its end."""
        return ended(self.start(**settings))

    def pearl(self, *words: str) -> Any:
        """Another command on its store, and the JSON it prints."""
        done = ended(self.process((*words, "--json")))
        assert not done.code, done.err
        return done.json

    def process(self, words: tuple[str, ...], **settings: str) -> subprocess.Popen[bytes]:
        """Start a command in its folder, on its store."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        environment = self.environment(**settings)
        return Fork(command(*words), cwd=self.folder, env=environment, **pipes)

    def environment(self, **settings: str) -> dict[str, str]:
        own = ("PEARL_", "OPENAI_", "COLUMNS")
        kept = {name: text for name, text in os.environ.items() if not name.startswith(own)}
        stub = {"OPENAI_BASE_URL": self.url, "OPENAI_API_KEY": "sk-stub", "PEARL_MODEL": "stub"}
        usual = {"PEARL_STORE": self.store, "PEARL_CONSTRAIN": "never"}
        return {**kept, **stub, **usual, **settings}

    def lines(self) -> list[str]:
        """The lines of the answers, each of which is a whole one; none where there is no file."""
        try:
            data = self.answers.read_bytes()
        except FileNotFoundError:
            return []
        assert not data or data.endswith(b"\n"), data[-100:]
        return data.decode("utf-8").splitlines()

    def rows(self) -> list[dict[str, Any]]:
        """The answers; none is there twice, and each is to a question of the file."""
        rows = [json.loads(line) for line in self.lines()]
        found = [row["id"] for row in rows]
        assert len(set(found)) == len(found)
        assert set(found) <= set(self.ids)
        return rows

    def to(self, **changes: Any) -> Batch:
        """The same questions with another output, store or options."""
        return replace(self, **changes)


def write_batch(
    folder: Path, count: int, stub: Stub, store: str = "store.db", documents: int = 6
) -> Batch:
    """Write questions and their documents.

    Every third question brings its plan, every second one options and the
    right one, which for every other of them is the stub's choice; one in
    twenty holds its document itself.

    Args:
        folder: where to.
        count: how many questions.
        stub: who is asked.
        store: where runs are kept.
        documents: how many documents they are about.
    """
    for at in range(documents):
        (folder / f"{at}.txt").write_text(_document(at), encoding="utf-8")
    rows = [_row(at, documents) for at in range(count)]
    write_rows(folder / "questions.jsonl", *rows)
    return Batch(folder, tuple(row["id"] for row in rows), stub.url, store)


def ended(process: subprocess.Popen[bytes]) -> Result:
    """Wait for a process, and tell how it ended."""
    try:
        out, err = process.communicate(timeout=LONGEST)
    finally:
        process.kill()
    return Result(process.returncode, out.decode(), err.decode())


def until(true: Callable[[], bool], process: subprocess.Popen[bytes] | None = None) -> bool:
    """Wait until something is so; False where a process ended before it was.

    Raises:
        TimeoutError: it never is.
    """
    give_up = time.monotonic() + LONGEST
    while not true():
        if process is not None and process.poll() is not None:
            return False
        if time.monotonic() > give_up:
            raise TimeoutError("It never came about.")
        time.sleep(0.02)
    return True


def interrupt(process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGINT) -> None:
    """Send what Ctrl-C sends, and wait until it is taken: two that wait are taken as one."""
    process.send_signal(number)
    assert until(lambda: not _pending(process.pid), process), ended(process)


def _pending(pid: int) -> bool:
    """Whether a signal waits for a process to take it."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return any(int(line.split()[1], 16) for line in status.splitlines() if "Pnd:" in line)


def settled(stub: Stub) -> dict[str, Any]:
    """The stub's counts once it has seen that its clients are gone."""
    until(lambda: stub.stats()["in_flight"] == 0)
    return stub.stats()


@dataclass(frozen=True, slots=True)
class Held:
    """What a store holds.

    Args:
        replies: the keys of calls whose reply is kept.
        leases: the keys of calls that a process has taken on, and has no reply to; with owners.
        rows: questions that have come to an end.
        runs: batches.
    """

    replies: frozenset[str] = frozenset()
    leases: Mapping[str, str] = field(default_factory=dict)
    rows: int = 0
    runs: int = 0

    def leases_of(self, pid: int) -> int:
        """How many calls a process of this machine has under way, or has not kept yet."""
        return sum(owner.split(":")[1] == str(pid) for owner in self.leases.values())


def held(batch: Batch) -> Held:
    """Count what a batch's store holds; nothing where there is none yet."""
    from sqlalchemy import func, inspect, select

    from pearl.store import tables

    with opened(batch) as engine:
        if engine is None or not inspect(engine).has_table("rows"):
            return Held()
        with engine.connect() as connection:
            replies = frozenset(connection.execute(select(tables.replies.c.key)).scalars())
            taken = connection.execute(select(tables.leases.c.key, tables.leases.c.owner))
            leases = {row.key: row.owner for row in taken}
            counts = (
                int(connection.execute(select(func.count()).select_from(table)).scalar_one())
                for table in (tables.rows, tables.runs)
            )
            return Held(replies, leases, *counts)


@contextmanager
def opened(batch: Batch) -> Iterator[Any]:
    """A look into a batch's store as it is, with nothing of Pearl's; None where there is none."""
    from sqlalchemy import create_engine

    address = batch.store
    if "://" not in address:
        file = batch.folder / address
        if not file.is_file():
            yield None
            return
        address = f"sqlite:///{file}"
    engine = create_engine(address)
    try:
        yield engine
    finally:
        engine.dispose()


def _document(number: int) -> str:
    lines = [f"{at}. {sentence} ({number})" for at in range(20) for sentence in SENTENCES]
    return "\n".join(lines) + "\n"


def _row(at: int, documents: int) -> dict[str, Any]:
    row: dict[str, Any] = {"id": f"q{at:04}", "question": f"Why does person {at} leave?"}
    row["document"] = {"text": _document(at)} if at % 20 == 19 else f"{at % documents}.txt"
    if at % 2:
        row |= {"options": ["for the letter", "for the sea", "for Tom"], "gold": "AB"[at // 2 % 2]}
    if at % 3 == 2:
        row["plan"] = GIVEN.format(number=at)
    return row


def assert_whole(batch: Batch, stub: Stub) -> None:
    """See that every question is answered in its place, and that no call was made twice."""
    assert [row["id"] for row in batch.rows()] == list(batch.ids)
    stats = stub.stats()
    assert (stats["again"], stats["repeats"]) == (0, 0)
    assert len(held(batch).replies) == stats["completed"]


def killed_once(folder: Path, stub: Stub, words: tuple[str, ...], after: int) -> Killed:
    """Run a command of a job, kill it with SIGKILL, and run it again to its end.

    Args:
        folder: where it runs.
        stub: who is asked; four calls at a time.
        words: the command's, after ``pearl``.
        after: how many calls are to be answered before it is killed.
    """
    batch = Batch(folder, (), stub.url, "store.db")
    command = (*words, "--json", "--concurrency", "4")
    with stub.paused(after):
        process = batch.process(command)
        assert until(lambda: stub.stats()["completed"] >= after, process)
        process.send_signal(signal.SIGKILL)
        process.wait(LONGEST)
    before = settled(stub)["completed"]
    done = ended(batch.process(command))
    assert done.code == 0, done.err
    return Killed(done, before, settled(stub)["repeats"])


@dataclass(frozen=True, slots=True)
class Killed:
    """What came of a job that was killed and gone on with.

    Args:
        done: how the second go ended.
        before: calls that were answered in the first one.
        repeats: calls that were made twice; at most those under way at the kill.
    """

    done: Result
    before: int
    repeats: int
