"""Whether a large batch runs as well at its end as at its start.

    python -m benchmarks.scale [--questions N] [--documents N] [--latency MS] [--rows N]

20,000 questions with plans of five calls, over 200 documents of 24,000
characters, against the stub endpoint. Prints memory and throughput at each
quarter, and the store's size a call. ``--rows 1000000`` runs 1,000 questions
with plans of one call, makes as many rows of them, and times what is done with
such a store.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.stub import Stub
from benchmarks.workload import documents, plans
from pearl.jobs.batch import Setup, batch_job
from pearl.jobs.job import CONCURRENT_TASKS, Job, JobSettings, start
from pearl.jobs.question_file import read_index
from pearl.jobs.workers import JobProgress
from pearl.models.routing import choose_model
from pearl.store.cache import prune, stats
from pearl.store.database import open_database
from pearl.store.history import find_run, list_runs, read_entries
from pearl.store.totals import mean_seconds, totals
from pearl.strategies.preparation import prepare


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--questions", type=int, default=20_000)
    options.add_argument("--documents", type=int, default=200)
    options.add_argument("--latency", type=float, default=0.0, help="milliseconds a call takes")
    options.add_argument("--rows", type=int, default=0, help="only this: a store of so many rows")
    options.add_argument("--processes", type=int, default=0, help="only this: as many batches")
    options.add_argument("--postgres", action="store_true", help="of them: in one PostgreSQL")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder, Stub(latency=chosen.latency / 1000) as stub:
        os.environ |= {"OPENAI_BASE_URL": stub.url, "OPENAI_API_KEY": "stub"}
        home = Path(folder)
        if chosen.processes:
            side_by_side(home, chosen.processes, chosen.questions, postgres=chosen.postgres)
            return
        if chosen.rows:
            simulate(home, chosen.rows)
            return
        write_questions(home, chosen.questions, chosen.documents)
        quarters = Quarters()
        progress = start(*job_in(home), quarters)
        size = sum(file.stat().st_size for file in home.glob("store.db*"))
        told = stub.stats()
    calls = progress.calls.made + progress.calls.kept
    print(
        f"{progress.done:,} of {progress.total:,} answered, {calls:,} calls, "
        f"{progress.seconds:.0f} s"
    )
    print(f"the stub answered {told['completed']:,} calls, {told['repeats']} of them twice")
    rates = quarters.print()
    print(f"last quarter ÷ first: {rates[-1] / rates[0]:.2f} (goal 0.9)")
    print(f"store: {size / 1e6:.0f} MB, {size / max(1, calls):,.0f} bytes a call")


def job_in(home: Path, scheduler: str = "") -> tuple[Job, JobSettings]:
    """The batch of a folder that `write_questions` filled."""
    setup = Setup(prepare("pearl", "gpt-4o-mini"))
    index = read_index(str(home / "questions.jsonl"), ahead=CONCURRENT_TASKS)
    job = batch_job(index, str(home / "answers.jsonl"), setup)
    model = choose_model("gpt-4o-mini")
    return job, JobSettings(model, str(home / "store.db"), scheduler=scheduler)


class Quarters:
    """Notes time and memory at each quarter."""

    def __init__(self) -> None:
        self._next = 1
        self._marks: list[tuple[float, int, float]] = [(time.monotonic(), 0, _memory())]

    def __call__(self, progress: JobProgress) -> None:
        if self._next <= 4 and progress.finished >= self._next * progress.total / 4:
            self._next += 1
            self._marks.append((time.monotonic(), progress.finished, _memory()))

    def print(self) -> list[float]:
        rates = []
        for number, (before, after) in enumerate(
            zip(self._marks, self._marks[1:], strict=False), 1
        ):
            rates.append((after[1] - before[1]) / (after[0] - before[0]))
            print(f"{25 * number:3} %  {after[2]:6.1f} MB  {rates[-1]:6.0f} questions/s")
        return rates


def _memory() -> float:
    """Memory this process holds now, in MB."""
    line = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in line
    )
    return int(line.split()[1]) / 1024


def write_questions(home: Path, questions: int, count: int) -> None:
    """Write a file of questions with plans, and as many documents."""
    texts = documents()
    for number in range(count):
        text = f"Document {number}. {texts[number % len(texts)]}"
        (home / f"{number}.txt").write_text(text, encoding="utf-8")
    drawn = random.Random(7)
    with (home / "questions.jsonl").open("w", encoding="utf-8") as file:
        for plan in plans(questions):
            row = {"id": plan.name, "document": f"{drawn.randrange(count)}.txt", "plan": plan.text}
            file.write(json.dumps(row) + "\n")


def simulate(home: Path, count: int, part: int = 1000) -> None:
    """Run a slice of a batch of short plans, add rows like its own up to ``count``, and time what
    people do with such a store.

    Copies have names and keys of their own, spread as hashes are, so that indexes grow as they
    would; each row has the hash by which the batch knows that it is done.
    """
    write_short(home, part)
    started = time.monotonic()
    progress = start(*job_in(home))
    print(f"{part:,} rows run: {part / (time.monotonic() - started):,.0f} a second")
    write_short(home, count)
    started = time.monotonic()
    job, settings = job_in(home)
    print(f"to read and check {count:,} questions: {time.monotonic() - started:.1f} s")
    place = Path(settings.store)
    with closing(sqlite3.connect(place, isolation_level=None)) as database:
        _multiply(database, job, progress.run, count)
    rows = count
    size = sum(file.stat().st_size for file in home.glob("store.db*"))
    print(f"{rows:,} rows: {size / 1e6:,.0f} MB, {size / rows:,.0f} bytes a row")
    now = time.time()
    engine, run = None, progress.run

    def timed(what: str, work: Callable[[], object]) -> None:
        started = time.monotonic()
        work()
        print(
            f"{what:34} {1000 * (time.monotonic() - started):10,.0f} ms  {_memory():6.0f} MB",
            flush=True,
        )

    timed("open", lambda: open_database(str(place)).dispose())
    engine = open_database(str(place))
    timed("list runs", lambda: list_runs(engine, now, 20))
    timed("find a run", lambda: find_run(engine, run[:-1], "", now))
    found = find_run(engine, "last", "", now)
    timed("read a question's journal", lambda: list(read_entries(engine, found, job.tasks.ids[7])))
    timed("mean time of a call", lambda: mean_seconds(engine, "gpt-4o-mini"))
    timed("totals of the run (pearl runs)", lambda: totals(engine, run))
    timed("pearl cache stats", lambda: stats(engine))
    resumed: list[JobProgress] = []
    timed("resume, all done, answers written", lambda: resumed.append(start(job, settings)))
    print(f"  of them {resumed[0].before:,} were done before")
    timed("prune everything", lambda: prune(engine, time.time() + 1))
    engine.dispose()


def side_by_side(home: Path, processes: int, count: int, *, postgres: bool) -> None:
    """Run batches of short plans, each in a process of its own, on one store."""
    with ExitStack() as stack:
        store = str(home / "store.db")
        if postgres:
            from tests.postgres import running

            store = stack.enter_context(stack.enter_context(running()).database())
        folders = [home / str(number) for number in range(processes)]
        for number, folder in enumerate(folders):
            folder.mkdir()
            write_short(folder, count // processes, f"{number}-")
        words = [str(Path(sys.executable).parent / "pearl"), "batch", "questions.jsonl", "-o"]
        words += ["answers.jsonl", "--model", "gpt-4o-mini", "--store", store]
        started = time.monotonic()
        batches = [
            subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL) for folder in folders
        ]
        codes = [batch.wait() for batch in batches]
        seconds = time.monotonic() - started
    kind = "PostgreSQL" if postgres else "SQLite"
    print(f"{processes} processes on one {kind}: {count / seconds:,.0f} questions/s, codes {codes}")


def write_short(home: Path, count: int, name: str = "") -> None:
    """Questions with plans of one call, on ten documents."""
    for number, text in enumerate(documents()[:10]):
        (home / f"{number}.txt").write_text(text[:1000], encoding="utf-8")
    with (home / "questions.jsonl").open("w", encoding="utf-8") as file:
        for at in range(count):
            plan = f'1. a = FIND_CHARACTER(CTX, "person {name}{at}") : who'
            row = {"id": f"q{name}{at}", "document": f"{at % 10}.txt", "plan": plan}
            file.write(json.dumps(row) + "\n")


def _multiply(database: sqlite3.Connection, job: Job, run: str, count: int) -> None:
    """Give a store as many rows as a batch has, like those that it has."""
    database.execute("PRAGMA synchronous=OFF")
    database.execute("PRAGMA cache_size=-2000000")
    database.create_function("another", 2, _another, deterministic=True)
    there = {row[0] for row in database.execute("SELECT id FROM rows WHERE run = ?", (run,))}
    first = job.tasks.ids[0]
    names = {
        table: [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        for table in ("entries", "replies", "rows")
    }
    named = """replace(result, '"' || ?2 || '"', '"' || ?1 || '"')"""
    own = {"entries": {"id": "NULL", "item": "?1", "call_key": "another(call_key, ?1)"},
           "replies": {"key": "another(key, ?1)"},
           "rows": {"id": "?1", "position": "?3", "row_key": "?4",
                    "result": named}}  # fmt: skip
    keys = "SELECT call_key FROM entries WHERE run = :run AND item = ?2 AND kind = 'call'"
    where = {"entries": "run = ?5 AND item = ?2", "rows": "run = ?5 AND id = ?2",
             "replies": f"scope = '' AND key IN ({keys.replace(':run', '?5')})"}  # fmt: skip
    statements = [
        f"INSERT INTO {table} SELECT {', '.join(own[table].get(n, n) for n in names[table])} "
        f"FROM {table} WHERE {where[table]} AND ?3 >= 0 AND ?4 <> ''"
        for table in names
    ]
    database.execute("BEGIN")
    for task in job.tasks.read(job.tasks.ids):
        if task.id not in there:
            given = (task.id, first, task.position, task.key, run)
            for statement in statements:
                database.execute(statement, given)
    database.execute("COMMIT")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _another(key: str, item: str) -> str:
    """A call's key for another question; a decision has none."""
    return hashlib.sha256(f"{key} {item}".encode()).hexdigest()[: len(key)]


if __name__ == "__main__":
    main()
