"""A batch that is killed or stopped goes on where it was, and pays nothing twice."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.attack_calls import crash, uninterrupted
from benchmarks.stub import Stub
from tests.batches import Batch, assert_whole, ended, held, interrupt, settled, until, write_batch

if TYPE_CHECKING:
    from tests.postgres import Server

pytest_plugins = ["tests.postgres"]

LATENCY = 0.03


def killed(folder: Path, store: str, kills: int, questions: int, options: tuple[str, ...] = ()):
    with Stub(latency=LATENCY, jitter=0.02) as stub:
        batch = write_batch(folder, questions, stub, store)
        expected = uninterrupted(batch.to(store="reference.db", output="reference.jsonl"))
        stub.reset()
        return crash(batch.to(options=options), stub, kills, expected)


def test_killed_again_and_again(tmp_path: Path):
    moments, _ = killed(tmp_path, "store.db", 4, 8)
    assert moments[-2:] == ["end", "again"]


def test_killed_where_replies_are_the_runs_own(tmp_path: Path):
    killed(tmp_path, "store.db", 2, 8, ("--no-cache",))


def test_killed_on_postgresql(tmp_path: Path, database: str):
    killed(tmp_path, database, 2, 8)


def test_a_server_that_restarts_is_waited_for(tmp_path: Path, postgres: Server, database: str):
    """For a second it has no connection, and takes none."""
    name = database.rpartition("/")[2]
    ask = postgres.connection.execute
    with Stub(latency=LATENCY) as stub:
        batch = write_batch(tmp_path, 10, stub, database)
        process = batch.start()
        assert until(lambda: stub.stats()["completed"] >= 10, process)
        ask(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        time.sleep(1)
        ask(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        done = ended(process)
        assert done.code == 0, done.err
        assert (stub.stats()["again"], len(batch.rows())) == (0, 10)


def test_ctrl_c_lets_calls_finish_and_names_the_command_to_go_on(tmp_path: Path):
    with Stub(latency=0.1) as stub:
        batch = write_batch(tmp_path, 10, stub)
        with stub.paused(after=10):
            process = batch.start()
            assert until(lambda: stub.stats()["completed"] >= 10, process)
            interrupt(process)
        stopped = ended(process)
        stats, store = stub.stats(), held(batch)
        assert stopped.code == 130
        assert len(stopped.told) == 1, stopped.err
        assert stopped.told[0].endswith(f"To go on: pearl {' '.join(batch.command)}")
        assert (stats["in_flight"], stats["cut"]) == (0, 0)
        assert len(store.replies) == stats["completed"]
        assert not store.leases
        assert all(row["status"] == "answered" for row in batch.rows())
        goes_on(batch, stub)
        assert stats["completed"] < stub.stats()["completed"]


def test_ctrl_c_twice_ends_at_once_and_keeps_what_was_finished(tmp_path: Path):
    # Calls that stall would hold it for ten minutes.
    with Stub(faults=0.15, faults_of=("stall",), stall=600, seed=3) as stub:
        batch = write_batch(tmp_path, 14, stub)
        waiting = batch.to(options=("--grace", "600", "--concurrency", "4"))
        process = waiting.start(PEARL_TIMEOUT="600")
        assert until(lambda: stub.stats()["faults"].get("stall") == 4, process)
        # All four places are taken: nothing moves any more once what was answered is kept.
        completed = stub.stats()["completed"]
        assert completed > 4
        assert until(lambda: len(held(waiting).replies) == completed, process)
        interrupt(process)
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.001)
        stopped = ended(process)
        assert stopped.code == 130
        assert len(stopped.told) == 1, stopped.err
        assert "Traceback" not in stopped.err
        assert len(held(waiting).replies) == settled(stub)["completed"]
        goes_on(batch, stub, PEARL_TIMEOUT="0.8")


def goes_on(batch: Batch, stub: Stub, **settings: str) -> None:
    """The same command finishes it, and sends nothing again that was answered."""
    done = batch.run(**settings)
    assert done.code == 0, done.err
    assert_whole(batch, stub)


def test_ctrl_c_before_anything_is_asked_harms_nothing(tmp_path: Path):
    with Stub(latency=0.02) as stub:
        batch = write_batch(tmp_path, 6, stub)
        process = batch.start()
        assert until(lambda: (tmp_path / "store.db").exists(), process)
        process.send_signal(signal.SIGINT)
        ended(process)
        goes_on(batch, stub)
