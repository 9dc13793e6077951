"""A batch that is killed or stopped goes on where it was, and pays nothing twice."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from benchmarks.crash import crash, uninterrupted
from benchmarks.stub import Stub
from tests.batches import Batch, ended, held, settled, until, write_batch

pytest_plugins = ["tests.postgres"]

QUESTIONS = 24
LATENCY = 0.03


def killed(folder: Path, store: str, kills: int, questions: int, options: tuple[str, ...] = ()):
    with Stub(latency=LATENCY, jitter=0.02) as stub:
        batch = write_batch(folder, questions, stub, store)
        expected = uninterrupted(batch.to(store="reference.db", output="reference.jsonl"))
        stub.reset()
        return crash(batch.to(options=options), stub, kills, expected)


def test_killed_again_and_again(tmp_path: Path):
    found = killed(tmp_path, "store.db", 4, 18)
    assert [kill.moment for kill in found.kills[-2:]] == ["end", "again"]


def test_killed_where_replies_are_the_runs_own(tmp_path: Path):
    killed(tmp_path, "store.db", 2, 8, ("--no-cache",))


def test_killed_on_postgresql(tmp_path: Path, database: str):
    killed(tmp_path, database, 2, 8)


def test_ctrl_c_lets_calls_finish_and_names_the_command_to_go_on(tmp_path: Path):
    with Stub(latency=0.1) as stub:
        batch = write_batch(tmp_path, QUESTIONS, stub)
        process = batch.start()
        assert until(lambda: stub.stats()["completed"] >= 15, process)
        process.send_signal(signal.SIGINT)
        stopped = ended(process)
        stats, store = stub.stats(), held(batch)
        assert stopped.code == 130
        assert len(stopped.told) == 1, stopped.err
        assert stopped.told[0].endswith(f"To go on: pearl {' '.join(batch.command)}")
        assert (stats["in_flight"], stats["cut"]) == (0, 0)
        assert len(store.replies) == stats["completed"] < 150
        assert not store.leases
        assert all(row["status"] == "answered" for row in batch.rows())
        goes_on(batch, stub)


def test_ctrl_c_twice_ends_at_once_and_keeps_what_was_finished(tmp_path: Path):
    # Calls that stall would hold it for ten minutes.
    with Stub(latency=0.02, faults=0.06, faults_of=("stall",), stall=600) as stub:
        batch = write_batch(tmp_path, QUESTIONS, stub)
        waiting = batch.to(options=("--grace", "600"))
        process = waiting.start(PEARL_TIMEOUT="600")
        assert until(lambda: stub.stats()["completed"] >= 30 and stalled(stub), process)
        process.send_signal(signal.SIGINT)
        # Between two calls it is quiet for a moment, also before the signal is heeded.
        until(lambda: all(quiet(stub, waiting) for _ in range(20)), process)
        assert process.poll() is None, ended(process)
        process.send_signal(signal.SIGINT)
        stopped = ended(process)
        assert stopped.code == 130
        assert len(stopped.told) == 1, stopped.err
        assert "Traceback" not in stopped.err
        assert len(held(waiting).replies) == settled(stub)["completed"]
        goes_on(batch, stub, PEARL_TIMEOUT="10")


def quiet(stub: Stub, batch: Batch) -> bool:
    """Whether nothing is under way but calls that stall, and every other is kept."""
    time.sleep(0.01)
    stats = stub.stats()
    return stats["in_flight"] == stalled(stub) and len(held(batch).replies) == stats["completed"]


def stalled(stub: Stub) -> int:
    return int(stub.stats()["faults"].get("stall", 0))


def goes_on(batch: Batch, stub: Stub, **settings: str) -> None:
    """The same command finishes it, and sends nothing again that was answered."""
    done = batch.run(**settings)
    assert done.code == 0, done.err
    assert [row["id"] for row in batch.rows()] == list(batch.ids)
    stats = stub.stats()
    assert (stats["again"], stats["repeats"]) == (0, 0)
    assert len(held(batch).replies) == stats["completed"]


def test_ctrl_c_before_anything_is_asked_harms_nothing(tmp_path: Path):
    with Stub(latency=0.02) as stub:
        batch = write_batch(tmp_path, 6, stub)
        process = batch.start()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.send_signal(signal.SIGINT)
        ended(process)
        goes_on(batch, stub)
