"""Kills a batch at random moments, goes on with it each time, and counts what was paid twice.

    python -m benchmarks.crash [--kills 50] [--questions 300] [--seed 7] [--postgres]

A third of the kills comes while the process starts, the others after a random
number of further calls; one comes in the moment in which the last answer is
written, and the last few while a finished batch is run once more. The answers
are compared with those of a run that nobody killed, and the stub tells after
each kill which calls it has answered how often.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

if not __package__:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.stub import Stub
from benchmarks.stub_replies import read_prompt
from tests.batches import Batch, Held, held, settled, until, write_batch

STARTING = 1.2
"""Seconds of a process's life that count as its start."""

REPEATED = 0.1
"""The share of the kills that meet a batch that has finished."""

STRIDE = 1.6
"""Calls from one kill to the next, at most, as a multiple of an even share of all calls."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What a run makes that nobody kills: its answers, and the stub's names of calls by key."""

    lines: tuple[str, ...]
    asked: dict[str, str]


@dataclass(frozen=True, slots=True)
class Kill:
    """What was found after a kill.

    Args:
        moment: ``start``, ``calls``, ``end`` or ``again``.
        answered: calls that the endpoint has answered so far.
        kept: calls whose reply the store has.
        in_flight: calls that the endpoint answered since the kill before, and whose reply the
            store does not have.
        under_way: calls that had been taken on and had no reply, as the store has it.
        repeats: answers beyond each call's first, so far.
        rows: lines of the output.
        late: whether the process had ended by itself.
    """

    moment: str
    answered: int
    kept: int
    in_flight: int
    under_way: int
    repeats: int
    rows: int
    late: bool


@dataclass(frozen=True, slots=True)
class Crashes:
    """A batch that was killed and gone on with until it was done.

    Args:
        kills: what was found after each.
        repeats: answers beyond each call's first, in all.
        seconds: the whole took.
    """

    kills: tuple[Kill, ...]
    repeats: int
    seconds: float

    @property
    def in_flight(self) -> int:
        """How many calls may have been repeated: those in flight, added up over the kills."""
        return sum(kill.in_flight for kill in self.kills)


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
    from pearl.answer import context_for
    from pearl.jobs.batch import Setup, batch_job
    from pearl.jobs.job import JobSettings, start
    from pearl.models.base import choose_model
    from pearl.strategies.registry import prepare

    with patch.dict(os.environ, batch.environment(), clear=True):
        spy = _Spy(choose_model("stub"))
        questions = str(batch.folder / "questions.jsonl")
        setup = Setup(prepare("pearl", "stub"), context_for(spy))  # type: ignore[arg-type]
        place = batch.store if "://" in batch.store else str(batch.folder / batch.store)
        progress = start(
            batch_job(questions, "", str(batch.answers), setup), JobSettings(spy, place)
        )  # type: ignore[arg-type]
    assert progress.done == len(batch.ids) == len(batch.rows())
    return Reference(tuple(batch.lines()), spy.asked)


def crash(
    batch: Batch, stub: Stub, kills: int, expected: Reference, seed: int = 0,
    told: Callable[[Kill], None] = lambda _: None,
) -> Crashes:  # fmt: skip
    """Kill a batch again and again, then let it finish, and hold it to everything promised.

    Args:
        batch: with a store of its own that nothing is in.
        stub: its endpoint, which has counted nothing yet.
        kills: how many.
        expected: what an uninterrupted run makes.
        seed: decides the moments.
        told: called after each kill.
    """
    drawn, started = random.Random(seed), time.monotonic()
    found: list[Kill] = []
    watch = _Watch(batch, stub, expected)
    for moment, amount in _moments(kills, len(expected.asked), drawn):
        found.append(watch.killed(moment, amount))
        told(found[-1])
    done = batch.run()
    assert done.code == 0, done.err
    assert tuple(batch.lines()) == expected.lines, "the answers are not the uninterrupted run's"
    last = watch.look("done", late=True)
    assert last.in_flight == 0
    assert last.answered == last.kept == len(expected.asked)
    assert (last.under_way, last.rows, watch.held.rows) == (0, len(batch.ids), len(batch.ids))
    assert watch.held.runs == 1, "it did not go on with its run"
    crashes = Crashes(tuple(found), last.repeats, time.monotonic() - started)
    assert crashes.repeats <= crashes.in_flight
    return crashes


class _Watch:
    """Kills, looks, and compares with what it saw the last time."""

    def __init__(self, batch: Batch, stub: Stub, expected: Reference) -> None:
        self._batch = batch
        self._stub = stub
        self._expected = expected
        self._answered: dict[str, int] = {}
        self.held = Held()

    def killed(self, moment: str, amount: float) -> Kill:
        before = self._stub.stats()["completed"]
        with self._batch.start() as process:
            if moment == "calls":
                until(lambda: self._stub.stats()["completed"] >= before + amount, process)
            elif moment == "end":
                until(lambda: _count_lines(self._batch.answers) == len(self._batch.ids), process)
            else:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(amount)
            late = process.poll() is not None
            process.kill()
        return self.look(moment, late=late)

    def look(self, moment: str, *, late: bool) -> Kill:
        """See what there is, and that no call was answered again that had been kept."""
        settled(self._stub)
        bodies = self._stub.stats(bodies=True)["bodies"]
        answered = {name.partition(":")[0]: often for name, often in bodies.items()}
        assert set(self._batch.lines()) <= set(self._expected.lines), "a line is no whole answer"
        store = held(self._batch)
        before, now = self._held_by(self.held), self._held_by(store)
        again = [name for name in before[0] if answered[name] != self._answered[name]]
        assert not again, f"{len(again)} calls were sent again whose reply was kept"
        fresh = {name for name, often in answered.items() if often != self._answered.get(name)}
        assert now[0] <= answered.keys()
        # What was answered and is not kept was in flight, and the store knows that it was.
        assert fresh - now[0] <= now[1]
        self._answered, self.held = answered, store
        return Kill(
            moment, len(answered), len(now[0]), len(fresh - now[0]), len(now[1]),
            sum(answered.values()) - len(answered), len(self._batch.rows()), late,
        )  # fmt: skip

    def _held_by(self, store: Held) -> tuple[set[str], set[str]]:
        """What the stub calls the calls whose reply is kept, and those under way."""
        asked = self._expected.asked
        return {asked[key] for key in store.replies}, {asked[key] for key in store.leases}


def _moments(kills: int, calls: int, drawn: random.Random) -> list[tuple[str, float]]:
    """When to kill, in order: what to wait for, and how much of it."""
    again = max(1, round(REPEATED * kills)) if kills > 2 else 0
    working = kills - again - 1
    starts = working // 3
    kinds = ["start"] * starts + ["calls"] * (working - starts)
    drawn.shuffle(kinds)
    most = STRIDE * calls / max(1, working)
    moments = [
        (kind, drawn.uniform(0, STARTING) if kind == "start" else drawn.uniform(1, most))
        for kind in kinds
    ]
    return [*moments, ("end", 0.0), *(("again", drawn.uniform(0, STARTING)) for _ in range(again))]


def _count_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--kills", type=int, default=50)
    options.add_argument("--questions", type=int, default=300)
    options.add_argument("--latency", type=float, default=50, help="milliseconds a call takes")
    options.add_argument("--seed", type=int, default=7, help="decides the moments")
    options.add_argument("--postgres", action="store_true", help="keep the store in PostgreSQL")
    options.add_argument("--json", type=Path, help="write all figures to this file, too")
    chosen = options.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stub = stack.enter_context(Stub(latency=chosen.latency / 1000, jitter=0.02))
        store = "store.db"
        if chosen.postgres:
            from tests.postgres import running

            store = stack.enter_context(stack.enter_context(running()).database())
        batch = write_batch(folder, chosen.questions, stub, store, documents=20)
        found = _measured(batch, stub, chosen)
    if chosen.json:
        figures = {**asdict(found), "in_flight": found.in_flight}
        chosen.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _measured(batch: Batch, stub: Stub, chosen: Any) -> Crashes:
    started = time.monotonic()
    expected = uninterrupted(batch.to(output="reference.jsonl", store="reference.db"))
    stub.reset()
    print(
        f"{chosen.questions} questions, {len(expected.asked):,} calls, "
        f"{batch.store.partition(':')[0]}: {time.monotonic() - started:.1f} s uninterrupted"
    )
    found = crash(batch, stub, chosen.kills, expected, chosen.seed, _print_kill)
    print(
        f"{len(found.kills)} kills in {found.seconds:.0f} s, "
        f"{sum(kill.late for kill in found.kills)} of them too late. The answers are the "
        f"uninterrupted run's to the byte ({sum(map(len, expected.lines)):,} characters).\n"
        f"No call whose reply was kept was sent again. {found.in_flight} calls were in flight at "
        f"the kills (answered and not yet kept), and {found.repeats} were answered again."
    )
    return found


def _print_kill(kill: Kill) -> None:
    print(
        f"{kill.moment:6} {kill.answered:6,} answered {kill.kept:6,} kept {kill.in_flight:4} in "
        f"flight {kill.under_way:4} under way {kill.repeats:4} repeats {kill.rows:5} rows"
        f"{'  (too late)' if kill.late else ''}"
    )


if __name__ == "__main__":
    main()
