"""Batches on a real Dask scheduler with two workers, each a process on loopback."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.stub import Stub
from tests.batches import Batch, ended, held, until, write_batch
from tests.shell import Result

pytest.importorskip("distributed", reason="Dask is not installed: pip install 'pearl[cluster]'")
pytest_plugins = ["tests.postgres"]

QUESTIONS = 30


@contextmanager
def cluster(batch: Batch, **settings: str) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler and two workers, with the batch's environment: its address, and the workers."""
    file = batch.folder / "scheduler.json"
    environment = batch.environment(DASK_DISTRIBUTED__WORKER__DAEMON="False", **settings)

    def start(*words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=batch.folder, env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    processes = [
        start("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0",
              "--no-dashboard", "--scheduler-file", str(file)),
    ]  # fmt: skip
    try:
        assert until(file.exists, processes[0])
        until(lambda: '"address"' in file.read_text())
        address = file.read_text().partition('"address": "')[2].partition('"')[0]
        worker = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1")
        processes += (start("distributed.cli.dask_worker", address, *worker) for _ in range(2))
        yield address, processes[1:]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def run(batch: Batch, address: str, *words: str) -> Result:
    return batch.to(options=(*batch.options, "--scheduler", address, *words)).run()


def test_a_cluster_answers_as_one_process_does(tmp_path: Path, database: str):
    with Stub(latency=0.02) as stub:
        batch = write_batch(tmp_path, QUESTIONS, stub, database)
        with cluster(batch) as (address, _):
            result = run(batch, address)
            assert result.code == 0, result.err
            stats = stub.stats()
            assert (stats["repeats"], stats["again"]) == (0, 0)
            again = run(batch, address)
            assert again.json["calls"] == {"made": 0, "kept": 0, "in_vain": 0}
        alone = batch.to(output="alone.jsonl", store="alone.db")
        assert alone.run().code == 0
    assert batch.lines() == alone.lines()
    assert [row["id"] for row in batch.rows()] == list(batch.ids)
    assert result.json["calls"]["made"] == stats["completed"] == len(held(batch).replies)
    assert result.json["prompt_tokens"] == stats["prompt_tokens"]


def test_a_worker_that_is_killed_loses_nothing(tmp_path: Path):
    with Stub(latency=0.05) as stub:
        batch = write_batch(tmp_path, QUESTIONS, stub)
        with cluster(batch) as (address, workers):
            going = batch.to(options=("--scheduler", address)).start()
            assert until(lambda: stub.stats()["completed"] >= 30, going)
            under_way = stub.stats()["max_in_flight"]
            workers[0].kill()
            result = ended(going)
        stats = stub.stats()
    assert result.code == 0, result.err
    assert [row["id"] for row in batch.rows()] == list(batch.ids)
    # What was under way in it is made again; what had come back is not.
    assert stats["repeats"] <= under_way


def test_the_budget_is_one_for_all_workers(tmp_path: Path):
    with Stub(latency=0.02) as stub:
        batch = write_batch(tmp_path, QUESTIONS, stub)
        with cluster(batch) as (address, _):
            result = run(batch, address, "--max-tokens", "30k")
            stats = stub.stats()
            assert result.code == 1
            assert "raise --max-tokens" in result.err
            spent = stats["prompt_tokens"] + stats["completion_tokens"]
            assert 10_000 < spent <= 30_000
            result = run(batch, address, "--max-tokens", "30k")
            after = stub.stats()
            assert after["prompt_tokens"] + after["completion_tokens"] <= 30_000
            assert run(batch, address).code == 0
        assert stub.stats()["repeats"] == 0
    assert [row["id"] for row in batch.rows()] == list(batch.ids)


def test_ctrl_c_keeps_what_is_done(tmp_path: Path):
    with Stub(latency=0.1) as stub:
        batch = write_batch(tmp_path, QUESTIONS, stub)
        with cluster(batch) as (address, _):
            going = batch.to(options=("--scheduler", address)).start()
            assert until(lambda: stub.stats()["completed"] >= 20, going)
            going.send_signal(signal.SIGINT)
            result = ended(going)
            assert result.code == 130, result.err
            assert "To go on: pearl batch" in result.err
        assert batch.run().code == 0
        assert stub.stats()["repeats"] == 0
    assert [row["id"] for row in batch.rows()] == list(batch.ids)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        # Another address is caught as any other difference is (`identity`).
        ({"PEARL_TEMPERATURE": "0.5"}, "set OPENAI_BASE_URL and the other"),
    ],
)
def test_a_worker_that_would_ask_another_says_so(
    tmp_path: Path, setting: dict[str, str], words: str
):
    with Stub() as stub:
        batch = write_batch(tmp_path, 8, stub)
        with cluster(batch, **setting) as (address, _):
            result = run(batch, address)
        assert result.code == 2
        assert words in result.err
        assert "Traceback" not in result.err
        assert stub.stats()["requests"] == 0


def test_keys_do_not_travel(tmp_path: Path):
    """What the client pickles for a worker does not hold the key."""
    import pickle

    from pearl.jobs.batch import AnswerRows, Setup
    from pearl.jobs.cluster import Order
    from pearl.models.choose import choose_model
    from pearl.models.middleware.stack import EngineLimits
    from pearl.run.context import UNLIMITED
    from pearl.strategies.registry import prepare

    key = "sk-feedfeedfeedfeed"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", key)
        model = choose_model("m")
        setup = Setup(prepare("pearl", "m", demonstrations=()), UNLIMITED)
        work = AnswerRows(setup)
        order = Order("run", "s.db", "", "m", model.identity, work, UNLIMITED, EngineLimits(), None)
    sent = pickle.dumps(order)
    assert key.encode() not in sent
    assert pickle.loads(sent).work.setup.prepared.library.actions == setup.prepared.library.actions
