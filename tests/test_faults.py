"""An endpoint that misbehaves in every way: nothing is lost, and every token is accounted for."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.attack_calls import Books
from benchmarks.stub import Stub
from tests.batches import assert_whole, write_batch


def test_a_fifth_of_all_calls_goes_wrong(tmp_path: Path):
    with Stub(latency=0.01, faults=0.2, seed=4, stall=600, drip=1, prefix_cache=True) as stub:
        books = Books(write_batch(tmp_path, 18, stub).to(options=("--max-wait", "2")), stub)
        first, second = books.go(), books.go()
    assert first.tried == 18
    assert 0 < second.tried == sum(first.failed.values()) < 18
    assert second.answered > first.answered
    assert first.skipped
    assert first.vain


def test_an_endpoint_that_never_gives_a_usable_answer(tmp_path: Path):
    # One that turns calls away as often may do so three times in a row, which stops a batch.
    kinds = ("refusal", "length", "choices_dict", "big", "empty", "page")
    with Stub(faults=1.0, faults_of=kinds) as stub:
        batch = write_batch(tmp_path, 8, stub, documents=2)
        done = Books(batch.to(options=("--max-wait", "2")), stub).go(PEARL_TRIES="2")
    assert (done.answered, sum(done.failed.values())) == (0, 8)
    assert {"refusal", "reply"} <= done.failed.keys()


@pytest.mark.parametrize("kind", ["key", "quota"])
def test_what_ends_everything_fails_nothing(tmp_path: Path, kind: str):
    """A quota that is used up is no question's fault: the rest waits for the next go."""
    with Stub(latency=0.01, faults=0.1, faults_of=(kind,), seed=7) as stub:
        batch = write_batch(tmp_path, 5, stub)
        done = batch.run()
        assert done.code == 1
        while done.code:
            assert len(done.told) == 1, done.err
            assert done.told[0].endswith(f"To go on: pearl {' '.join(batch.command)}")
            assert all(row["status"] == "answered" for row in batch.rows())
            done = batch.run()
        assert_whole(batch, stub)
