"""Runs a batch against an endpoint that misbehaves in every way it knows, and keeps its books.

    python -m benchmarks.faults [--questions 600] [--faults 0.2] [--seed 7] [--goes 4]

After each go every question is answered, or failed with its cause; what Pearl
says it spent is what the stub told in usages that it sent whole. The same
command is then run again: it tries the failed questions only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

if not __package__:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.stub import Stub
from tests.batches import Batch, opened, settled, write_batch

BOOKS = ("prompt_tokens", "completion_tokens", "cached_tokens")
TIMEOUT = 4.0
"""Seconds that a call may take; the stub stalls for far longer."""


@dataclass(frozen=True, slots=True)
class Go:
    """What one go of the batch came to, all of it checked.

    Args:
        tried: questions that were begun.
        answered: questions with an answer after it, those of earlier goes among them.
        failed: questions without one, by reason.
        skipped: steps that were skipped, as another had no output.
        requests: sent in this go.
        faults: how often the stub misbehaved, by kind.
        vain: tries that got no usable answer.
        spent: prompt, completion and cached tokens of this go.
        seconds: it took.
    """

    tried: int
    answered: int
    failed: dict[str, int]
    skipped: int
    requests: int
    faults: dict[str, int]
    vain: int
    spent: tuple[int, ...]
    seconds: float


class Books:
    """Runs a batch go by go, and holds each to everything promised.

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
        started = time.monotonic()
        result = self._batch.run(PEARL_TIMEOUT=str(TIMEOUT), **settings)
        seconds = time.monotonic() - started
        assert result.code in (0, 1), result
        told, stats = result.json, settled(self._stub)
        rows = {row["id"]: row for row in self._batch.rows()}
        assert list(rows) == list(self._batch.ids), "the answers are not all, or not in order"
        failed = _check_rows(rows)
        assert bool(failed) == (result.code == 1)
        assert (told["answered"], told["failed"]) == (len(rows) - failed.total(), dict(failed))
        judged = [row["correct"] for row in rows.values() if row["correct"] is not None]
        assert (told["judged"], told["right"]) == (len(judged), sum(judged))
        spent = self._check_spent(told, stats)
        tried = self._check_tried(rows, stats)
        go = Go(
            tried,
            told["answered"],
            dict(failed),
            sum("has no output" in step["cause"] for row in rows.values() for step in _lost(row)),
            stats["requests"] - self._stats["requests"],
            dict(Counter(stats["faults"]) - Counter(self._stats["faults"])),
            told["calls"]["in_vain"],
            spent,
            seconds,
        )
        self._stats, self._rows = stats, rows
        return go

    def _check_spent(self, told: dict[str, Any], stats: dict[str, Any]) -> tuple[int, ...]:
        """This go's books, and those of all goes, are the stub's."""
        spent = tuple(told[name] for name in BOOKS)
        assert spent == tuple(stats[name] - self._stats[name] for name in BOOKS)
        shown = self._batch.pearl("runs", "show", "last")
        assert tuple(shown["usage"][name] for name in BOOKS) == tuple(stats[n] for n in BOOKS)
        return spent

    def _check_tried(self, rows: dict[str, dict[str, Any]], stats: dict[str, Any]) -> int:
        """Questions that had an answer were left alone, the others were begun once."""
        begun = _begun(self._batch)
        for name, row in self._rows.items():
            if row["status"] == "answered":
                assert rows[name] == row
                assert begun[name] == self._begun[name]
        before = self._begun
        assert all(begun[name] - before[name] in (0, 1) for name in rows)
        assert all(begun[name] > before[name] for name in rows if self._failed(name))
        # No request was for a call that had been answered.
        assert stats["again"] == stats["repeats"] == 0
        self._begun = begun
        return (begun - before).total()

    def _failed(self, name: str) -> bool:
        return name not in self._rows or self._rows[name]["status"] == "failed"


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


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--questions", type=int, default=600)
    options.add_argument("--faults", type=float, default=0.2, help="share of the requests")
    options.add_argument("--seed", type=int, default=7)
    options.add_argument("--goes", type=int, default=4, help="how often the command is run")
    options.add_argument("--drip", type=float, default=1.0, help="seconds a dripping body takes")
    options.add_argument("--json", type=Path, help="write all figures to this file, too")
    chosen = options.parse_args()
    goes: list[Go] = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stub = stack.enter_context(
            Stub(
                latency=0.02, faults=chosen.faults, seed=chosen.seed, stall=600, drip=chosen.drip,
                prefix_cache=True,
            )
        )  # fmt: skip
        batch = write_batch(folder, chosen.questions, stub, documents=30)
        books = Books(batch.to(options=("--max-wait", "2")), stub)
        for number in range(1, chosen.goes + 1):
            goes.append(books.go())
            _print_go(number, goes[-1], chosen.questions)
    print("Every token that Pearl reports is one that the stub told, and the other way round.")
    if chosen.json:
        figures = [asdict(go) for go in goes]
        chosen.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _print_go(number: int, go: Go, questions: int) -> None:
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(go.failed.items()))
    print(
        f"go {number}: {go.tried} tried, {go.answered} of {questions} answered, "
        f"{sum(go.failed.values())} failed ({reasons or 'none'}), {go.skipped} steps skipped; "
        f"{go.requests:,} requests, {sum(go.faults.values())} faults, {go.vain} tries in vain; "
        f"{go.spent[0]:,} tokens read ({go.spent[2]:,} cached), {go.spent[1]:,} written; "
        f"{go.seconds:.1f} s"
    )
    print("   " + ", ".join(f"{kind} {often}" for kind, often in sorted(go.faults.items())))


if __name__ == "__main__":
    main()
