"""Two processes on one store: they share what they pay for, and one outlives the other."""

from __future__ import annotations

import signal
from pathlib import Path

from benchmarks.stub import Stub
from tests.batches import Batch, ended, held, settled, until, write_batch

pytest_plugins = ["tests.postgres"]

QUESTIONS = 4


def both(batch: Batch) -> tuple[Batch, Batch]:
    """The same batch with an output for each of two processes."""
    return batch.to(output="one.jsonl"), batch.to(output="two.jsonl")


def together(batch: Batch) -> tuple[Batch, Batch]:
    """Start the same batch twice at once, and let both end."""
    pair = both(batch)
    for process in [one.start() for one in pair]:
        done = ended(process)
        assert done.code == 0, done.err
    return pair


def test_each_call_is_made_once(tmp_path: Path, place: str):
    with Stub(latency=0.03, jitter=0.02) as stub:
        batch = write_batch(tmp_path, QUESTIONS, stub, place)
        first, second = together(batch)
        stats, store = stub.stats(), held(batch)
    assert (stats["repeats"], stats["again"]) == (0, 0)
    assert stats["requests"] == stats["distinct"] == len(store.replies)
    assert [row["id"] for row in first.rows()] == list(batch.ids)
    assert first.lines() == second.lines()
    assert (store.leases, store.runs, store.rows) == ({}, 2, 2 * QUESTIONS)
    # A call is in the books of the run that made it, and of no other.
    runs = batch.pearl("runs")
    assert sum(run["calls"]["made"] for run in runs) == stats["completed"]
    for name in ("prompt_tokens", "completion_tokens"):
        assert sum(run["usage"][name] for run in runs) == stats[name]


def test_runs_that_keep_apart_make_their_own_calls(tmp_path: Path):
    with Stub(latency=0.03) as stub:
        batch = write_batch(tmp_path, 3, stub).to(options=("--no-cache",))
        first, second = together(batch)
        stats = stub.stats()
    assert stats["repeats"] == stats["distinct"] == stats["repeated"]
    assert first.lines() == second.lines()


def test_one_takes_over_what_a_killed_one_had_begun(tmp_path: Path, place: str):
    with Stub(latency=0.05) as stub:
        batch = write_batch(tmp_path, QUESTIONS, stub, place)
        first, second = both(batch)
        with stub.paused(after=10):
            killed, other = first.start(), second.start()
            assert until(lambda: stub.stats()["completed"] >= 10, killed)
            # A call's lease ends with what keeps its reply; while its maker is stopped, none ends.
            killed.send_signal(signal.SIGSTOP)
            under_way = held(batch).leases_of(killed.pid)
            killed.kill()
            assert ended(killed).code == -signal.SIGKILL
        done = ended(other)
        assert done.code == 0, done.err
        assert [row["id"] for row in second.rows()] == list(batch.ids)
        assert len(first.rows()) < QUESTIONS
        repeats = settled(stub)["repeats"]
        assert not held(batch).leases
        # The killed one finds all it needs.
        assert first.run().code == 0
        stats = stub.stats()
    assert first.lines() == second.lines()
    assert stats["repeats"] == repeats <= under_way
    assert stats["requests"] == stats["completed"] + stats["cut"]


def test_a_call_that_fails_in_one_is_tried_in_the_other(tmp_path: Path):
    with Stub(latency=0.02, faults=0.2, faults_of=("server_500", "refusal"), seed=4) as stub:
        batch = write_batch(tmp_path, 4, stub)
        first, second = both(batch)
        for process in [one.start() for one in (first, second)]:
            done = ended(process)
            assert done.code in (0, 1), done.err
        for one in (first, second):
            assert [row["id"] for row in one.rows()] == list(batch.ids)
            until(lambda one=one: one.run().code == 0)
        stats = stub.stats()
    assert first.lines() == second.lines()
    assert stats["faults"]
    assert (stats["again"], stats["repeats"]) == (0, 0)
