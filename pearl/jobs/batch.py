"""Answering a file of questions as a job: from a question's row to the row of its answer.

And what a batch will take, before anything is sent: calls, tokens, money, time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pearl.answer import Session, answer, as_object, heading, holds, kept, opened_tools
from pearl.jobs.job import CONCURRENT_TASKS, Job
from pearl.jobs.questions import (
    Question,
    QuestionIndex,
    QuestionTask,
    read_index,
)
from pearl.jobs.workers import Task, unforeseen
from pearl.lang.ast import Literal, Plan, step_refs
from pearl.lang.builtins import conclusion, read_label
from pearl.lang.graph import reads_document
from pearl.lang.library import Library
from pearl.lang.parser import parse
from pearl.lang.source import InputError, refuse_same
from pearl.lang.values import as_text, digest
from pearl.models.base import ModelError, Usage
from pearl.models.embeddings import choose_embedding
from pearl.models.tokens import count_tokens
from pearl.prompts.calls import Call, MapAnswer, WritePlan
from pearl.prompts.render import render
from pearl.runtime.calls import Journal, calls_made
from pearl.runtime.context import UNLIMITED, Context, ContextError, fit_plan
from pearl.runtime.loop import RunError
from pearl.strategies.pearl import direct_plan, narrowed, within_window
from pearl.strategies.registry import Prepared, prepare_plan


@dataclass(frozen=True)
class Setup:
    """How the questions of a batch are answered.

    Args:
        prepared: the strategy.
        context: how much fits a prompt, and what to do with a longer document.
        plans: the actions that a question's own plan may call; None for the strategy's.
        examples: worked examples that a demand for a form shows, at most.
        tools: the file with what may be asked beside the document; empty for none.
    """

    prepared: Prepared
    context: Context = UNLIMITED
    plans: Library | None = None
    examples: int = 0
    tools: str = ""

    def digest(self) -> str:
        """The hash of all of it that may change an answer.

        Raises:
            InputError: the strategy embeds, and the embedding of the environment cannot be used.
        """
        prepared, spec = self.prepared, self.prepared.spec
        shown = [[one.question, one.plan] for one in prepared.demonstrations]
        fitting = [self.context.policy, self.context.window, self.context.reply]
        how = [] if spec.name == "pearl" else [spec.name]
        file = Path(self.tools)
        tools = digest(file.read_text(encoding="utf-8")) if file.is_file() else self.tools
        how += [tools if use == "tools" else choose_embedding().identity for use in spec.uses]
        if self.plans and self.plans.digest != prepared.library.digest:
            how.append(self.plans.digest)
        if self.examples:
            how.append(str(self.examples))
        settings = prepared.settings
        if settings.shown:
            how.append(f"{settings.shown} shown")
        if settings.turns:
            how.append("turns")
        return digest([prepared.library.digest, shown, fitting, settings.passes, *how])


async def answer_row(setup: Setup, task: Task[QuestionTask], session: Session) -> dict[str, Any]:
    """Answer one question.

    Args:
        setup: how.
        task: what is asked, of which document.
        session: the model in its layers, and the question's journal.

    Returns:
        The row of the output, as JSON data. Where there is no answer it says
        why, and counts as wrong.
    """
    question, document, prepared = task.what.question, task.what.document, setup.prepared
    session = replace(session, examples=setup.examples)
    library = (setup.plans or prepared.library) if question.plan else prepared.library
    count = None if question.plan else prepared.demonstrated
    head = heading(question.question, document, library, session.engine.model, count)
    session.journal.decide("run", head)
    try:
        if question.plan:
            prepared = prepare_plan(parse(question.plan), library, prepared.settings.passes)
        async with opened_tools(setup.tools) as tools:
            box = kept(tools, session, question.id) if tools else None
            given = (question.question, document, question.options, session, None, box)
            reply = await answer(prepared, *given)
        # The same answers give the same row, whichever run they come from, whoever paid for them.
        shown = "answer words option evidence grounded plan fallback calls usage".split()
        data = as_object(reply, document)
        right = None
        if question.gold and reply.option:
            right = reply.option.letter == question.gold
        elif question.gold:
            right = holds(conclusion(reply.text), question.gold)
        return _row(question, "answered", right) | {name: data[name] for name in shown}
    except (RunError, ModelError, InputError) as error:
        return _failed(question, session.journal, error)
    except Exception as error:  # noqa: BLE001 - whatever it is, others go on
        return _failed(question, session.journal, unforeseen(error))


def _failed(
    question: Question, journal: Journal, error: RunError | ModelError | InputError
) -> dict[str, Any]:
    """The row of a question without an answer: why, and how far it came."""
    steps: Sequence[Any] = ()
    # The class of what went wrong: the model's reason where there is one, else whose fault.
    if isinstance(error, ModelError):
        reason = error.reason
    elif isinstance(error, InputError):
        reason = "input"
    else:
        steps = error.failures
        reason = "plan" if error.diagnostics else steps[0].reason if steps else "reply"
    plans = [entry.value for entry in journal.entries if entry.path == "plan"]
    done = calls_made(journal.entries)
    return {
        # Accuracies count a question without an answer as wrong.
        **_row(question, "failed", False if question.gold else None),
        "error": {
            "reason": reason,
            "message": str(error),
            "steps": [asdict(step) for step in steps],
        },
        "plan": plans[-1] if plans else question.plan or None,
        "calls": len(done),
        "usage": asdict(sum((entry.usage for entry in done), Usage())),
    }


def _row(question: Question, status: str, right: bool | None) -> dict[str, Any]:
    """What every row says."""
    return {
        "id": question.id,
        "question": question.question,
        "document": question.document,
        "status": status,
        "gold": question.gold or None,
        "correct": right,
    }


def batch_job(
    questions: str, documents: str, output: str, setup: Setup, ahead: int = CONCURRENT_TASKS
) -> Job:
    """Answering a file of questions.

    Args:
        questions: the file.
        documents: the folder with their documents; empty for the file's own.
        output: the file of answers.
        setup: how to answer.
        ahead: as `QuestionIndex` takes it: questions under way at a time.

    Raises:
        InputError: a question or a document cannot be used, or is where answers are to go.
    """
    index = read_index(questions, documents, ahead)
    refuse_same(output, index.files)
    return Job(
        "batch",
        {
            "questions": questions,
            "count": len(index.places),
            "documents": str(index.folder),
            "output": output,
            "library": ", ".join(setup.prepared.library.names),
        },
        {
            "questions": str(index.path.resolve()),
            "documents": str(index.folder.resolve()),
            "output": str(Path(output).resolve()),
            "setup": setup.digest(),
        },
        index,
        partial(answer_row, setup),
        setup.context,
        output,
    )


STEPS = 2.94
"""Calls that a plan makes where it is not written yet: the mean of GPT-4's 1,988 plans."""

AROUND = 220
"""Tokens of a step's prompt around the document, and of its arguments: as Pearl's own runs have."""

SMALLEST_PREFIX = 1024
"""Tokens below which endpoints keep no beginning of a prompt; they keep steps of 128."""

SAID = 150
"""Tokens of a step's reply."""

PLANNED = 200
"""Tokens of a plan."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a batch may take.

    Args:
        questions: how many.
        planned: of them, those whose plan is to be written.
        documents: how many different ones.
        calls: to the model.
        planning: tokens of writing plans.
        reading: tokens of all else, with those that an endpoint with a prefix cache keeps
            counted as ``cached_tokens``.
        refused: questions whose document no prompt of theirs fits; nothing is counted for them.
        why: what the first of them is told; empty where there is none.
    """

    questions: int
    planned: int
    documents: int
    calls: float
    planning: Usage
    reading: Usage
    refused: int = 0
    why: str = ""

    @property
    def usage(self) -> Usage:
        """Tokens of all calls."""
        return self.planning + self.reading


def estimate(index: QuestionIndex, setup: Setup, model: str) -> Estimate:
    """Estimate a batch.

    Args:
        index: its questions.
        setup: how they are to be answered; what its window and policy make of a long document
            counts.
        model: whose vocabulary to count with.

    Raises:
        InputError: a document cannot be read.
    """
    write = WritePlan("?", setup.prepared.library, setup.prepared.demonstrations)
    write = narrowed(write, setup.prepared.settings.shown)
    writing = _tokens(within_window(write, setup.context, Journal()), model)
    calls = read = kept = said = 0.0
    planned, refused, why, sizes = 0, 0, "", dict[str, int]()
    library = setup.plans or setup.prepared.library
    for place, question in index.questions(index.ids):
        fresh = place.document not in sizes
        document = index.document(question)
        if fresh:
            sizes[place.document] = count_tokens(document.text, model)
        size = sizes[place.document]
        # A plan that is not written yet has such steps, as far as a long document goes.
        plan = parse(question.plan).plan if question.plan else direct_plan(question.question)
        try:
            fitted, _ = fit_plan(plan, 0, document, library, setup.context)
        except ContextError as error:
            refused, why = refused + 1, why or f"{place.name}: {error}"
            continue
        steps, reads = _calls(fitted, library.with_declared(fitted.declares))
        if not question.plan:
            steps, reads = steps * STEPS, reads * STEPS
            planned += 1
            calls += 1
        limit, passages = setup.context.limit, False
        if limit and setup.context.policy == "retrieve":
            shown = min(size, max(0, setup.context.room - AROUND))
            passages, size = shown < size, shown
        read += reads * size + steps * AROUND
        # Each document is read once in full; after that an endpoint may have its beginning ready.
        if size >= SMALLEST_PREFIX and not passages:
            kept += max(0.0, reads - fresh) * (size // 128 * 128)
        calls, said = calls + steps, said + steps * SAID
        if question.options:
            choosing = _tokens(MapAnswer(question.question, "", question.options), model)
            calls, read, said = calls + 1, read + choosing + SAID, said + 2
    planning = Usage(planned * (writing + 30), planned * PLANNED)
    reading = Usage(round(read), round(said), round(kept))
    count = len(index.places)
    return Estimate(count, planned, len(sizes), calls, planning, reading, refused, why)


def _calls(plan: Plan, library: Library) -> tuple[float, float]:
    """How many calls a plan makes, and how many whole documents these read.

    A list of which only a run knows the length counts as one item.
    """
    calls = reads = 0.0
    lengths: dict[str, int] = {}
    labels: set[str] = set()
    for step in plan.steps:
        action = library.get(step.action)
        if step.action in ("PARTS", "GROUPS") and isinstance(step.args[1], Literal):
            lengths[step.name] = int(as_text(step.args[1].value))
            labels |= {step.name} if step.action == "PARTS" else set()
        elif action is None or not action.is_builtin:
            mapped = next((ref.name for ref in step_refs(step) if ref.maps), "")
            told = [read_label(as_text(arg.value)) for arg in step.args if isinstance(arg, Literal)]
            calls += lengths.get(mapped, 1)
            reads += reads_document(step) or mapped in labels
            reads += sum(1 / part[1] for part in told if part)
    return calls, reads


def _tokens(call: Call, model: str) -> int:
    return sum(count_tokens(message["content"], model) for message in render(call))
