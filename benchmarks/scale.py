"""Whether a large batch runs as well at its end as at its start.

    python -m benchmarks.scale [--questions N] [--documents N] [--latency MS]

20,000 questions with plans of five calls, over 200 documents of 24,000
characters, against the stub endpoint. Prints memory and throughput at each
quarter, and the store's size a call.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.stub import Stub
from benchmarks.workload import documents, plans
from pearl.jobs.batch import Setup, batch_job
from pearl.jobs.job import Job, JobSettings, start
from pearl.jobs.workers import JobProgress
from pearl.models.base import choose_model
from pearl.strategies.registry import prepare


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--questions", type=int, default=20_000)
    options.add_argument("--documents", type=int, default=200)
    options.add_argument("--latency", type=float, default=0.0, help="milliseconds a call takes")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder, Stub(latency=chosen.latency / 1000) as stub:
        os.environ |= {"OPENAI_BASE_URL": stub.url, "OPENAI_API_KEY": "stub"}
        home = Path(folder)
        write_questions(home, chosen.questions, chosen.documents)
        quarters = Quarters()
        progress = start(*job_in(home), quarters)
        size = sum(file.stat().st_size for file in home.glob("store.db*"))
        told = stub.stats()
    print(
        f"{progress.done:,} of {progress.total:,} answered, {progress.calls:,} calls, "
        f"{progress.seconds:.0f} s"
    )
    print(f"the stub answered {told['completed']:,} calls, {told['repeats']} of them twice")
    rates = quarters.print()
    print(f"last quarter ÷ first: {rates[-1] / rates[0]:.2f} (goal 0.9)")
    print(f"store: {size / 1e6:.0f} MB, {size / max(1, progress.calls):,.0f} bytes a call")


def job_in(home: Path, scheduler: str = "") -> tuple[Job, JobSettings]:
    """The batch of a folder that `write_questions` filled."""
    setup = Setup(prepare("pearl", "gpt-4o-mini"))
    job = batch_job(str(home / "questions.jsonl"), "", str(home / "answers.jsonl"), setup)
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


if __name__ == "__main__":
    main()
