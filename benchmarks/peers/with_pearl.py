"""Pearl's batch, with its journal and its cache on: questions from a file, answers to a file."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.peers.common import KEY, MODEL, Run, run_peer
from benchmarks.workload import Plan, documents
from pearl.jobs.batch import Setup, batch_job
from pearl.jobs.job import run_tasks
from pearl.jobs.question_file import read_index
from pearl.jobs.workers import JobProgress, WorkerPool
from pearl.models.middleware.stack import start_engine
from pearl.models.routing import choose_model
from pearl.store.store import open_store
from pearl.strategies.preparation import prepare


@asynccontextmanager
async def with_pearl(url: str) -> AsyncIterator[Run]:
    """Plans run by Pearl's engine, as ``pearl batch`` runs them.

    The warm-up's plans ask other things than those on the clock, so a store
    that both share saves nothing.
    """
    os.environ |= {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": KEY}
    model, setup = choose_model(MODEL), Setup(prepare("pearl", MODEL, demonstrations=()))
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for number, text in enumerate(documents()):
            (home / f"{number}.txt").write_text(text, encoding="utf-8")
        store = open_store(str(home / "store.db"))
        engine = start_engine(model, store)

        async def run(work: list[Plan], at_once: int) -> list[str]:
            questions, answers = home / "questions.jsonl", home / "answers.jsonl"
            questions.write_text("".join(map(_row, work)), encoding="utf-8")
            index = read_index(str(questions), ahead=at_once, problem=setup.plan_problem)
            job = batch_job(index, str(answers), setup)
            name = store.start("batch", {})
            progress = JobProgress(name, len(work))
            pool = WorkerPool(job.work, job.context, engine, store, at_once, progress)
            await run_tasks(job, pool)
            rows = answers.read_text(encoding="utf-8").splitlines()
            return [json.loads(row)["answer"] for row in rows]

        yield run
        await model.close()
        store.close()


def _row(plan: Plan) -> str:
    row = {"id": plan.name, "document": f"{plan.document}.txt", "plan": plan.text}
    return json.dumps(row) + "\n"


if __name__ == "__main__":
    run_peer(with_pearl)
