"""Batches on a real Dask scheduler with two workers, each a process on loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.stub import Stub
from tests.batches import Batch, ended, held, interrupt, settled, until, write_batch
from tests.forks import ROOT, Fork
from tests.shell import call, command, one_line, process, read_rows, write_rows

if not find_spec("distributed"):
    pytest.skip("Dask is not installed: pip install 'dask[distributed]'", allow_module_level=True)
pytest_plugins = ["tests.postgres"]

QUESTIONS = 12
LATENCY = 0.03
IMPATIENT = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "1s"}
"""Dask's own setting of how long it is waited for."""


@dataclass(frozen=True)
class Cluster:
    """A scheduler with two workers, and the endpoint that they ask."""

    stub: Stub
    address: str
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]
    add_worker: Callable[[], None]

    def batch(self, folder: Path, store: str = "store.db") -> Batch:
        """Questions to be answered on it; the endpoint forgets what was asked before."""
        self.stub.reset()
        batch = write_batch(folder, QUESTIONS, self.stub, store)
        return batch.to(options=("--scheduler", self.address))


@contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    """A cluster, for as long as the block lasts."""
    file = folder / "scheduler.json"
    processes: list[subprocess.Popen[bytes]] = []
    with Stub(latency=LATENCY) as stub:
        environment = Batch(folder, (), stub.url, "").environment()

        def start(*words: str) -> None:
            processes.append(
                Fork(
                    [sys.executable, "-m", *words],
                    cwd=folder,
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )

        def add_worker() -> None:
            start("distributed.cli.dask_worker", "--scheduler-file", str(file), "--nthreads", "1",
                  "--no-nanny", "--no-dashboard", "--host", "127.0.0.1")  # fmt: skip

        try:
            start("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0",
                  "--no-dashboard", "--scheduler-file", str(file))  # fmt: skip
            # A worker waits for the file itself.
            for _ in range(2):
                add_worker()
            assert until(lambda: file.exists() and '"address"' in file.read_text(), processes[0])
            address = json.loads(file.read_text())["address"]
            yield Cluster(stub, address, processes[0], processes[1:], add_worker)
        finally:
            for process in processes:
                process.kill()
                process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One for the tests of a process, as it takes long to start; it may lose a worker."""
    with running(tmp_path_factory.mktemp("cluster")) as one:
        yield one


@contextmanager
def under_way(
    batch: Batch, stub: Stub, calls: int, **settings: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A batch of which so many calls are answered; the others wait until the block ends."""
    with stub.paused(after=calls):
        going = batch.start(**settings)
        assert until(lambda: stub.stats()["completed"] >= calls, going)
        yield going


def test_a_cluster_answers_as_one_process_does(cluster: Cluster, tmp_path: Path, database: str):
    batch, stub = cluster.batch(tmp_path, database), cluster.stub
    result = batch.run()
    assert result.code == 0, result.err
    stats = stub.stats()
    assert (stats["repeats"], stats["again"]) == (0, 0)
    assert batch.run().json["calls"] == {"made": 0, "kept": 0, "in_vain": 0}
    alone = batch.to(output="alone.jsonl", store="alone.db", options=())
    assert alone.run().code == 0
    assert batch.lines() == alone.lines()
    assert [row["id"] for row in batch.rows()] == list(batch.ids)
    assert result.json["calls"]["made"] == stats["completed"] == len(held(batch).replies)
    assert result.json["prompt_tokens"] == stats["prompt_tokens"]


def test_the_budget_is_one_for_all_workers(cluster: Cluster, tmp_path: Path):
    batch, stub = cluster.batch(tmp_path), cluster.stub
    limited = batch.to(options=(*batch.options, "--max-tokens", "20k"))
    for _ in range(2):
        result = limited.run()
        assert result.code == 1
        assert "raise --max-tokens" in result.err
        stats = stub.stats()
        assert 7_000 < stats["prompt_tokens"] + stats["completion_tokens"] <= 20_000
    assert batch.run().code == 0
    assert stub.stats()["repeats"] == 0
    assert [row["id"] for row in batch.rows()] == list(batch.ids)


def test_a_signal_keeps_what_is_done(cluster: Cluster, tmp_path: Path):
    batch, stub = cluster.batch(tmp_path), cluster.stub
    with under_way(batch, stub, 5) as going:
        interrupt(going, signal.SIGTERM)
    result = ended(going)
    assert result.code == 130, result.err
    assert result.err.startswith("pearl: Stopped. What was done is kept. To go on: pearl batch")
    assert len(batch.rows()) == held(batch).rows
    assert batch.to(options=()).run().code == 0
    assert stub.stats()["repeats"] == 0
    assert [row["id"] for row in batch.rows()] == list(batch.ids)


def in_a_session(batch: Batch) -> subprocess.Popen[bytes]:
    """A batch as a terminal's command, which Ctrl-C reaches with all processes that it starts."""
    return subprocess.Popen(
        command(*batch.command),
        cwd=batch.folder,
        env=batch.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


@pytest.mark.slow
def test_ctrl_c_of_a_terminal_lets_local_workers_finish(tmp_path: Path):
    with Stub(latency=LATENCY) as stub:
        batch = write_batch(tmp_path, QUESTIONS, stub).to(options=("--scheduler", "local"))
        with stub.paused(after=5):
            going = in_a_session(batch)
            assert until(lambda: stub.stats()["completed"] >= 5, going)
            os.killpg(going.pid, signal.SIGINT)
            time.sleep(1)
        result = ended(going)
        assert result.code == 130, result.err
        assert result.err.startswith("pearl: Stopped. What was done is kept.")
        assert stub.stats()["cut"] == 0


@pytest.mark.slow
def test_ctrl_c_while_local_workers_start_is_told_in_a_line(tmp_path: Path):
    import psutil

    def starting(process: psutil.Process) -> bool:
        return any("spawn_main" in word for child in process.children() for word in child.cmdline())

    with Stub() as stub, socket.socket() as taken:
        # Another cluster's pages are at this port, as like as not.
        with suppress(OSError):
            taken.bind(("127.0.0.1", 8787))
            taken.listen()
        batch = write_batch(tmp_path, 1, stub).to(options=("--scheduler", "local"))
        going = in_a_session(batch)
        assert until(lambda: starting(psutil.Process(going.pid)), going)
        # They are begun one after another, and take a second to load what they need.
        time.sleep(0.3)
        os.killpg(going.pid, signal.SIGINT)
        assert one_line(ended(going), 130).startswith("Stopped. What was done is kept. To go on: p")


def test_after_the_grace_calls_under_way_are_cut_off(cluster: Cluster, tmp_path: Path):
    batch, stub = cluster.batch(tmp_path), cluster.stub
    impatient = batch.to(options=(*batch.options, "--grace", "0.2"))
    with under_way(impatient, stub, 15) as going:
        interrupt(going)
        result = ended(going)
        assert result.code == 130, result.err
        assert "calls under way were cut off" in result.err
        assert len(batch.rows()) == held(batch).rows
    assert batch.run().code == 0
    assert [row["id"] for row in batch.rows()] == list(batch.ids)


def test_a_batch_is_begun_again_while_a_chunk_of_it_is_under_way(cluster: Cluster, tmp_path: Path):
    batch, stub = cluster.batch(tmp_path), cluster.stub
    with under_way(batch, stub, 5) as going:
        # The workers have not heard of that.
        going.kill()
        going.communicate()
        asked = stub.stats()["requests"]
        again = batch.start()
        assert until(lambda: stub.stats()["requests"] > asked, again)
    result = ended(again)
    assert result.code == 0, result.err
    assert [row["id"] for row in batch.rows()] == list(batch.ids)


def test_workers_of_a_command_that_was_killed_are_free(cluster: Cluster, tmp_path: Path):
    batch, stub = cluster.batch(tmp_path), cluster.stub
    with under_way(batch, stub, 5) as going:
        going.kill()
        going.communicate()
        assert settled(stub)["completed"] == 5
    assert batch.run().code == 0


def test_a_worker_that_would_ask_another_says_so(cluster: Cluster, tmp_path: Path):
    """Another address is caught as any other difference is (`identity`)."""
    result = cluster.batch(tmp_path).run(PEARL_TEMPERATURE="0.5")
    assert result.code == 2
    assert "set OPENAI_BASE_URL and the other" in result.err
    assert "Traceback" not in result.err
    assert cluster.stub.stats()["requests"] == 0


def test_keys_do_not_travel(tmp_path: Path):
    """What the client pickles for a worker does not hold the key."""
    import pickle

    from pearl.jobs.batch import Setup, answer_row
    from pearl.jobs.dask_worker import Order
    from pearl.models.middleware.stack import EngineLimits
    from pearl.models.routing import ModelNames, choose_model
    from pearl.models.tokens import NO_PRICES
    from pearl.runtime.context import UNLIMITED
    from pearl.strategies.preparation import prepare

    key = "sk-feedfeedfeedfeed"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", key)
        model = choose_model("m")
        setup = Setup(prepare("pearl", "m", demonstrations=()), UNLIMITED)
        work = partial(answer_row, setup)
        names, limits = ModelNames("m", "m"), EngineLimits()
        known = (model.identity, work, UNLIMITED, limits, NO_PRICES)
        order = Order("run", "s.db", "", names, *known)
    sent = pickle.dumps(order)
    assert key.encode() not in sent
    (setup_there,) = pickle.loads(sent).work.args
    assert setup_there.prepared.library.actions == setup.prepared.library.actions


def test_a_worker_that_is_killed_loses_nothing(cluster: Cluster, tmp_path: Path):
    """It leaves the cluster with one worker."""
    most, stub = 4, cluster.stub
    of = ("--scheduler", cluster.address, "--concurrency", f"{most}")
    batch = cluster.batch(tmp_path).to(options=of)
    with under_way(batch, stub, 15) as going:
        cluster.workers[0].kill()
    result = ended(going)
    assert result.code == 0, result.err
    assert [row["id"] for row in batch.rows()] == list(batch.ids)
    # What was under way in it is made again, and what was answered and not kept yet.
    assert stub.stats()["repeats"] <= 2 * most < 15
    shown = batch.pearl("runs", "show", "last")
    assert result.json["calls"] == shown["calls"]
    assert result.json["prompt_tokens"] == shown["usage"]["prompt_tokens"]


def test_workers_and_a_scheduler_that_are_gone_are_told_in_a_line(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
):
    with running(tmp_path_factory.mktemp("cluster")) as cluster:
        batch, stub = cluster.batch(tmp_path), cluster.stub
        with under_way(batch, stub, 10, **IMPATIENT) as going:
            for worker in cluster.workers:
                worker.kill()
            line = one_line(ended(going), 1)
        gone = f"No worker is left at {cluster.address}: start dask worker."
        assert line.startswith(f"{gone} What was done is kept. To go on: pearl batch")
        assert len(batch.rows()) == held(batch).rows
        cluster.add_worker()
        with under_way(batch, stub, 20) as going:
            cluster.scheduler.kill()
            line = one_line(ended(going), 1)
        gone = f"The scheduler at {cluster.address} is gone."
        assert line.startswith(f"{gone} What was done is kept. To go on: pearl batch")
        assert len(batch.rows()) == held(batch).rows
        assert batch.to(options=()).run().code == 0


def test_a_port_that_stays_silent_is_no_scheduler(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as silent, Stub() as stub:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        batch = write_batch(tmp_path, 1, stub).to(options=("--scheduler", address))
        line = one_line(batch.run(**IMPATIENT), 2)
    assert line.startswith(f"There is no Dask scheduler with workers at {address}: start")


DEADLY = '''
import os

import pearl


@pearl.action
def end_it(word: str) -> str:
    """End the process."""
    os._exit(3)


def judge(question: str, gold: str, answer: str) -> float:
    return end_it("") if question == "Who?" else 1.0
'''


@pytest.fixture
def deadly(tmp_path: Path) -> dict[str, str]:
    """What finds an installed package that has an action and a metric that end the process."""
    about = tmp_path / "installed" / "deadly-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Name: deadly\nVersion: 1\n", encoding="utf-8")
    points = "[pearl.actions]\ndeadly = deadly:end_it\n[pearl.metrics]\ndeadly = deadly:judge\n"
    (about / "entry_points.txt").write_text(points, encoding="utf-8")
    (about.parent / "deadly.py").write_text(DEADLY, encoding="utf-8")
    return {"PYTHONPATH": f"{ROOT}:{about.parent}"}


@pytest.mark.slow
def test_a_trial_that_kills_its_workers_counts_as_wrong(tmp_path: Path, deadly: dict[str, str]):
    text = {"document": {"text": "Mara left as the Fund had closed it."}, "gold": "x"}
    rows = ({"id": asked, "question": asked, **text} for asked in ("Who?", "Why did Mara leave?"))
    data, out = write_rows(tmp_path / "q.jsonl", *rows), tmp_path / "e.jsonl"
    asked = ("eval", "questions", "--data", data, "--methods", "pearl", "--model", "offline")
    asked += ("--metric", "deadly", "--scheduler", "local", "--store", str(tmp_path / "s.db"))
    done = process(*asked, "-o", str(out), **deadly)
    assert done.code == 1, done.err
    assert "1 trial failed" in done.err
    assert [row["score"] for row in read_rows(out)[1:]] == [0.0, 1.0]


@pytest.mark.slow
def test_a_question_that_kills_its_workers_fails_alone(tmp_path: Path, deadly: dict[str, str]):
    ids = tuple(f"q{at}" for at in range(6))
    row = {"question": "Why?", "document": {"text": "Mara left as the Fund had closed it."}}
    row["gold"] = "It was closed."
    plans = dict.fromkeys(ids, '1. a = FIND_EVENT(CTX, "she left")') | {"q2": '1. a = END_IT("it")'}
    rows = [{"id": name, "plan": plan, **row} for name, plan in plans.items()]
    write_rows(tmp_path / "questions.jsonl", *rows)
    options = ("--library", "core", "--library", "deadly", "--scheduler", "local")
    with Stub() as stub:
        batch = Batch(tmp_path, ids, stub.url, "store.db", options=options)
        result = batch.run(**deadly)
    line = one_line(result, 1)
    assert line.startswith("1 question failed, and answers.jsonl says why: Every worker that began")
    assert [row["id"] for row in batch.rows()] == list(ids)
    assert [row["id"] for row in batch.rows() if row["status"] == "failed"] == ["q2"]
    assert result.json["failed"] == {"worker": 1}
    assert result.json["judged"] == len(ids)
    told = call("report", result.json["run"], "--store", str(tmp_path / "store.db"))
    assert told.code == 0, told.err
