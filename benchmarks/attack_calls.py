"""Batches against the stub that are killed, or whose endpoint misbehaves: what is paid, and kept.

Both hold a batch to the stub's own books: `crash` to which calls were answered how often, and
`Books` to the tokens of every usage that was sent whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.stub import Stub
from benchmarks.stub_replies import read_prompt
from tests.batches import Batch, Held, held, opened, settled, until

STARTING = 1.2
"""Seconds of a process's life that count as its start."""

STRIDE = 1.6
"""Calls from one kill to the next, at most, as a multiple of an even share of all calls."""

TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens")
TIMEOUT = 4.0
"""Seconds that a call may take; the stub stalls for far longer."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What a run makes that nobody kills: its answers, and the stub's names of calls by key."""

    lines: tuple[str, ...]
    asked: dict[str, str]


@dataclass
class _Spy:
    """A model that takes down what the stub calls each call."""

    model: Any
    asked: dict[str, str] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    async def answer(self, request: Any) -> Any:
        sent = json.dumps({"messages": request.messages}).encode()
        self.asked[request.key] = read_prompt(sent).digest[:32]
        return await self.model.answer(request)


def uninterrupted(batch: Batch) -> Reference:
    """Run a batch in this process, with nobody to kill it."""
    from pearl.jobs.batch import Setup, batch_job
    from pearl.jobs.job import JobSettings, start
    from pearl.jobs.question_file import read_index
    from pearl.models.routing import choose_model
    from pearl.session import context_for
    from pearl.strategies.preparation import prepare

    with patch.dict(os.environ, batch.environment(), clear=True):
        spy = _Spy(choose_model("stub"))
        questions = str(batch.folder / "questions.jsonl")
        setup = Setup(prepare("pearl", "stub"), context_for(spy))  # type: ignore[arg-type]
        place = batch.store if "://" in batch.store else str(batch.folder / batch.store)
        job = batch_job(read_index(questions), str(batch.answers), setup)
        progress = start(job, JobSettings(spy, place))  # type: ignore[arg-type]
    assert progress.done == len(batch.ids) == len(batch.rows())
    return Reference(tuple(batch.lines()), spy.asked)


def crash(
    batch: Batch, stub: Stub, kills: int, expected: Reference, seed: int = 0
) -> tuple[list[str], int]:
    """Kill a batch again and again, then let it finish, and hold it to everything promised.

    A third of the kills comes while the process starts, the others after a random number of
    further calls; one comes in the moment in which the last answer is written, and a tenth while
    a finished batch is run once more.

    Args:
        batch: with a store of its own that nothing is in.
        stub: its endpoint, which has counted nothing yet.
        kills: how many.
        expected: what an uninterrupted run makes.
        seed: decides the moments.

    Returns:
        The moments of the kills, and how many answers were paid for twice, each in flight at one.
    """
    watch = _Watch(batch, stub, expected)
    moments = _moments(kills, len(expected.asked), random.Random(seed))
    for moment, amount in moments:
        watch.kill(moment, amount)
    done = batch.run()
    assert done.code == 0, done.err
    assert tuple(batch.lines()) == expected.lines, "the answers are not the uninterrupted run's"
    in_flight = watch.in_flight
    answered, repeats = watch.look()
    assert watch.in_flight == in_flight
    assert answered == len(watch.held.replies) == len(expected.asked)
    assert (len(watch.held.leases), watch.held.rows) == (0, len(batch.ids))
    assert watch.held.runs == 1, "it did not go on with its run"
    assert repeats <= in_flight
    return [moment for moment, _ in moments], repeats


@dataclass
class _Watch:
    """Kills, looks, and compares with what it saw the last time.

    Args:
        batch: what is killed.
        stub: its endpoint.
        expected: what an uninterrupted run makes.
        in_flight: answers so far that came between two looks, and were not kept.
        held: what the store held at the last look.
    """

    batch: Batch
    stub: Stub
    expected: Reference
    in_flight: int = 0
    held: Held = field(default_factory=Held)
    _answered: dict[str, int] = field(default_factory=dict)

    def kill(self, moment: str, amount: float) -> None:
        """Start the batch, kill it, and look."""
        before = self.stub.stats()["completed"]
        with self.batch.start() as process:
            if moment == "calls":
                until(lambda: self.stub.stats()["completed"] >= before + amount, process)
            elif moment == "end":
                until(lambda: _lines(self.batch.answers) == len(self.batch.ids), process)
            else:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(amount)
            process.kill()
        self.look()

    def look(self) -> tuple[int, int]:
        """Calls that were answered so far, and answers beyond each one's first."""
        settled(self.stub)
        bodies = self.stub.stats(bodies=True)["bodies"]
        answered = {name.partition(":")[0]: often for name, often in bodies.items()}
        assert set(self.batch.lines()) <= set(self.expected.lines), "a line is no whole answer"
        store, named = held(self.batch), self.expected.asked
        again = [key for key in self.held.replies
                 if answered[named[key]] != self._answered[named[key]]]  # fmt: skip
        assert not again, f"{len(again)} calls were sent again whose reply was kept"
        fresh = {name for name, often in answered.items() if often != self._answered.get(name)}
        kept = {named[key] for key in store.replies}
        assert kept <= answered.keys()
        # What was answered and is not kept was in flight, and the store knows that it was.
        assert fresh - kept <= {named[key] for key in store.leases}
        self._answered, self.held = answered, store
        self.in_flight += len(fresh - kept)
        return len(answered), sum(answered.values()) - len(answered)


def _moments(kills: int, calls: int, drawn: random.Random) -> list[tuple[str, float]]:
    """When to kill, in order: what to wait for, and how much of it."""
    again = max(1, kills // 10) if kills > 2 else 0
    working = kills - again - 1
    kinds = ["start"] * (working // 3) + ["calls"] * (working - working // 3)
    drawn.shuffle(kinds)
    most = STRIDE * calls / max(1, working)
    moments = [
        (kind, drawn.uniform(0, STARTING) if kind == "start" else drawn.uniform(1, most))
        for kind in kinds
    ]
    return [*moments, ("end", 0.0), *(("again", drawn.uniform(0, STARTING)) for _ in range(again))]


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


@dataclass(frozen=True, slots=True)
class Go:
    """What one go of a batch came to, all of it checked.

    Args:
        tried: questions that were begun.
        answered: questions with an answer after it, those of earlier goes among them.
        failed: questions without one, by reason.
        skipped: steps that were skipped, as another had no output.
        vain: tries that got no usable answer.
    """

    tried: int
    answered: int
    failed: dict[str, int]
    skipped: int
    vain: int


class Books:
    """Runs a batch go by go, and holds each to everything promised.

    After each go every question is answered, or failed with its cause; what Pearl says it spent is
    what the stub told in usages that it sent whole. A next go tries the failed questions only.

    Args:
        batch: with a store of its own that nothing is in.
        stub: its endpoint, which has counted nothing yet.
    """

    def __init__(self, batch: Batch, stub: Stub) -> None:
        self._batch = batch
        self._stub = stub
        self._stats = stub.stats()
        self._begun: Counter[str] = Counter()
        self._rows: dict[str, dict[str, Any]] = {}

    def go(self, **settings: str) -> Go:
        """Run the command once, and check what it left.

        Args:
            settings: more of its environment.
        """
        result = self._batch.run(PEARL_TIMEOUT=str(TIMEOUT), **settings)
        assert result.code in (0, 1), result
        told, stats = result.json, settled(self._stub)
        rows = {row["id"]: row for row in self._batch.rows()}
        assert list(rows) == list(self._batch.ids), "the answers are not all, or not in order"
        failed = _check_rows(rows)
        assert bool(failed) == (result.code == 1)
        assert (told["answered"], told["failed"]) == (len(rows) - failed.total(), dict(failed))
        judged = [row["correct"] for row in rows.values() if row["correct"] is not None]
        assert (told["judged"], told["right"]) == (len(judged), sum(judged))
        # This go's books, and those of all goes, are the stub's.
        assert [told[name] for name in TOKENS] == [stats[n] - self._stats[n] for n in TOKENS]
        shown = self._batch.pearl("runs", "show", "last")
        assert [shown["usage"][name] for name in TOKENS] == [stats[name] for name in TOKENS]
        tried = self._check_tried(rows, stats)
        skipped = [step for row in rows.values() for step in _lost(row)
                   if "has no output" in step["cause"]]  # fmt: skip
        self._stats, self._rows = stats, rows
        vain = told["calls"]["in_vain"]
        return Go(tried, told["answered"], dict(failed), len(skipped), vain)

    def _check_tried(self, rows: dict[str, dict[str, Any]], stats: dict[str, Any]) -> int:
        """Questions that had an answer were left alone, the others were begun once."""
        begun = _begun(self._batch)
        for name, row in self._rows.items():
            if row["status"] == "answered":
                assert rows[name] == row
                assert begun[name] == self._begun[name]
        before = self._begun
        assert all(begun[name] - before[name] in (0, 1) for name in rows)
        failed = [name for name in rows
                  if name not in self._rows or self._rows[name]["status"] == "failed"]  # fmt: skip
        assert all(begun[name] > before[name] for name in failed)
        # No request was for a call that had been answered.
        assert stats["again"] == stats["repeats"] == 0
        self._begun = begun
        return (begun - before).total()


def _begun(batch: Batch) -> Counter[str]:
    """How often each question was begun, in all goes."""
    from sqlalchemy import func, select

    from pearl.store.tables import entries

    query = select(entries.c.item, func.count()).where(entries.c.path == "run")
    with opened(batch) as engine, engine.connect() as connection:
        found = connection.execute(query.group_by(entries.c.item))
        return Counter({item: int(count) for item, count in found})


def _check_rows(rows: dict[str, dict[str, Any]]) -> Counter[str]:
    """Each row is an answer, or says what failed and why; the failures by reason."""
    failed: Counter[str] = Counter()
    for row in rows.values():
        if row["status"] == "answered":
            assert row["answer"]
            continue
        assert row["status"] == "failed"
        assert "answer" not in row
        assert row["correct"] is (False if row["gold"] else None)
        error = row["error"]
        assert error["reason"]
        assert error["message"]
        assert all(step["reason"] and step["cause"] for step in error["steps"])
        if error["steps"]:
            _check_skipped(row)
        failed[error["reason"]] += 1
    return failed


def _check_skipped(row: dict[str, Any]) -> None:
    """The steps that have no output are those that failed, and all that need one of them."""
    from pearl.lang.graph import dependencies
    from pearl.lang.parser import parse

    plan = parse(row["plan"]).plan
    needs = dependencies(plan.steps)
    lost = {step["step"]: step["cause"] for step in _lost(row)}
    for step in plan.steps:
        missed = [name for name in needs[step.name] if name in lost]
        if missed:
            assert lost[step.name] in [f"{name} has no output" for name in missed]
        elif step.name in lost:
            assert "has no output" not in lost[step.name]
    assert lost.keys() <= {step.name for step in plan.steps}


def _lost(row: dict[str, Any]) -> list[dict[str, str]]:
    steps: list[dict[str, str]] = row["error"]["steps"] if row["status"] == "failed" else []
    return steps
