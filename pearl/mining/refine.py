"""Makes demonstrations from plans that were executed, scored, and refined where they failed.

PEARL, section 2.2, self-refinement: a plan is written and run on its document,
and its answer is mapped to an option and scored; if that is wrong, the model
writes the plan again, and is shown the outputs of its steps.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any

from pearl.answer import answer
from pearl.jobs.answer_metrics import Scorer, best_score, holds
from pearl.jobs.batch import Setup
from pearl.jobs.job import CONCURRENT_TASKS, Job
from pearl.jobs.question_file import QuestionIndex, QuestionTask
from pearl.jobs.workers import Task, failure_of
from pearl.lang.ast import Plan
from pearl.lang.errors import InputError
from pearl.lang.output_files import refuse_same
from pearl.lang.printer import print_plan
from pearl.lang.values import as_text, digest, from_json
from pearl.models.base import ModelError
from pearl.prompts.calls import Call, RefinePlan, WritePlan
from pearl.runtime.loop import RunError
from pearl.session import Session, heading
from pearl.strategies.pearl import GivenPlan, write_plan
from pearl.strategies.preparation import prepare_own

ROUNDS = 3
"""How often a plan may be refined."""

UNREFINED = "unrefined"
"""The folder for the first versions of the plans."""

SHOWN = 800
"""The most characters of a step's output that the refining model is shown."""


async def refine(
    setup: Setup, rounds: int, metric: Scorer | None, task: Task[QuestionTask], session: Session
) -> dict[str, Any]:
    """Write, execute, score and refine a plan for one question, and return its row.

    Args:
        setup: how questions are answered.
        rounds: how often a plan may be refined.
        metric: scores an answer, which is right if it scores 1; None for the usual comparison.
        task: the question, with its document and its gold answer.
        session: the model in its layers, and the question's journal.
    """
    question, library = task.payload.question.question, setup.prepared.library
    row = {"id": task.id, "question": question}
    demonstrated = setup.prepared.demonstrated
    model, options = session.engine.model, task.payload.question.options
    head = heading(question, task.payload.document, library, model, demonstrated, options)
    session.journal.decide("run", head)
    tries: list[dict[str, Any]] = []
    guessed = False
    write = WritePlan(question, library, setup.prepared.demonstrations, bool(options))
    call: WritePlan | RefinePlan = write
    asked: list[Call] = []
    try:
        for number in range(rounds + 1):
            inner = replace(session, journal=session.journal.under(f"try/{number}"))
            planned = await write_plan(write, inner.caller(), call, asked)
            if planned.plan is None:
                # The checker's corrections are used up, so another round would only repeat them.
                first = planned.diagnostics[:1]
                reason = planned.limited or "".join(finding.message for finding in first)
                wrong = f"No plan passed the checker. {reason}".strip()
                tries.append({"plan": planned.source.text, "judgement": wrong})
                if number == 0:
                    error = {"reason": "plan", "message": wrong, "steps": []}
                    return {**row, "status": "failed", "error": error, "tries": tries}
                break
            judgement, guessed = await _judge(planned.plan, task.payload, setup, metric, inner)
            tries.append({"plan": print_plan(planned.plan), "judgement": judgement})
            inner.journal.decide("judgement", judgement)
            if not judgement:
                break
            shown = print_plan(replace(planned.plan, question="")).strip()
            done = [entry for entry in inner.journal.entries if entry.status == "done"]
            values = {entry.path: entry.value for entry in done}
            texts = (
                (step.name, as_text(from_json(values[f"value/{step.name}"])))
                for step in planned.plan.steps
                if f"value/{step.name}" in values
            )
            outputs = tuple(
                (name, text if len(text) <= SHOWN else f"{text[:SHOWN]} …") for name, text in texts
            )
            call = RefinePlan(write, shown, outputs, judgement)
    except ModelError as error:
        return {**row, "status": "failed", "error": failure_of(error), "tries": tries}
    accepted = bool(tries) and not tries[-1]["judgement"]
    session.journal.decide("accepted", accepted)
    return {**row, "status": "answered", "correct": accepted, "guessed": guessed, "tries": tries}


def refine_job(
    index: QuestionIndex,
    setup: Setup,
    rounds: int = ROUNDS,
    without: Collection[str] = (),
    metric: Scorer | None = None,
) -> Job:
    """Refining demonstrations for a file of questions.

    Args:
        index: questions with their documents, each with a gold answer (`gold_problem`).
        setup: how they are answered.
        rounds: how often a plan may be refined.
        without: the questions of the file that were left out.
        metric: as `refine` takes it.
    """
    return Job(
        "refine",
        {
            "questions": str(index.path),
            "count": len(index.places),
            "documents": str(index.folder),
            "library": ", ".join(setup.prepared.library.names),
        },
        {
            "questions": str(index.path.resolve()),
            "setup": setup.digest(),
            "rounds": rounds,
            **({"without": digest(sorted(without))} if without else {}),
            **({"metric": [metric.name, metric.version]} if metric else {}),
        },
        replace(index, ahead=CONCURRENT_TASKS),
        partial(refine, setup, rounds, metric),
        setup.context,
    )


def first_file(folder: Path, read: Iterable[str | Path]) -> str:
    """A path that must be writable so that plans can be written to a folder.

    Args:
        folder: the folder for the plans; it may have some already.
        read: folders that are read, which it must not be; empty texts are ignored.

    Raises:
        InputError: it is a file, or one of those folders, or holds other things but no plan.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: name a folder for the plans.")
    refuse_same(str(folder), filter(None, read))
    # Hidden files, and other files beside plans, are no sign of a wrong folder.
    others = sorted(path.name for path in folder.glob("[!.]*") if path.name != UNREFINED)
    if others and not any(name.endswith(".plan") for name in others):
        raise InputError(f"{folder} has other things in it, as {others[0]}: name another folder.")
    return str(folder / "plan" if folder.is_dir() else folder)


def write_demonstrations(
    rows: Iterable[dict[str, Any]], folder: Path
) -> tuple[list[Path], list[Path]]:
    """Write the accepted plans as files, and their first versions in a folder beside them.

    An existing file with another plan is left unchanged: somebody may have edited it.

    Args:
        rows: as `refine` gives them.
        folder: the folder for the plans; it is made if it is missing.

    Returns:
        The files that hold the plans, and those that were left unchanged.

    Raises:
        InputError: the files cannot be written.
    """
    used: set[str] = set()
    written: list[Path] = []
    left: list[Path] = []
    try:
        (folder / UNREFINED).mkdir(parents=True, exist_ok=True)
        for row in rows:
            if not row.get("correct"):
                continue
            # A question's id may hold anything.
            plain = re.sub(r"[^\w.-]+", "_", row["id"]).strip("._")[:80] or "plan"
            numbered = (f"{plain}_{number}" for number in count(2))
            unique = next(name for name in chain([plain], numbered) if name.casefold() not in used)
            used.add(unique.casefold())
            file, first, plan = folder / f"{unique}.plan", row["tries"][0], row["tries"][-1]["plan"]
            if file.exists() and file.read_bytes() != plan.encode():
                left.append(file)
                continue
            (folder / UNREFINED / file.name).write_bytes(first["plan"].encode())
            file.write_bytes(plan.encode())
            written.append(file)
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written ({error.strerror}): name a folder of your own."
        ) from None
    return written, left


async def _judge(
    plan: Plan, task: QuestionTask, setup: Setup, metric: Scorer | None, session: Session
) -> tuple[str, bool]:
    """What is wrong with the answer of a plan, empty where it is right; and whether the offline
    reader picked that answer by words alone."""
    question = task.question
    try:
        reply = await answer(
            prepare_own(lambda _: GivenPlan(plan), setup.prepared.library),
            question.question,
            task.document,
            question.options,
            session,
        )
    except RunError as error:
        return f"It led to no answer: {error}", False
    if metric:
        response = reply.option.letter if reply.option else reply.words or reply.text
        asked = (question.question, question.options, question.golds)
        correct = (await best_score(metric, *asked, response, session)).value == 1
    elif question.options:
        correct = reply.option is not None and reply.option.letter == question.gold
    else:
        correct = holds(reply.words or reply.text, *question.golds)
    return "" if correct else "The answer it led to is not the right one.", reply.guessed
