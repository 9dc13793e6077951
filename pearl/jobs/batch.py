"""Answering a file of questions as a job: from a question's row to the row of its answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from pearl.answer import answer, as_object, cached_tools, open_tools, says_nothing
from pearl.jobs.answer_metrics import holds
from pearl.jobs.job import Job
from pearl.jobs.question_file import Question, QuestionIndex, QuestionTask
from pearl.jobs.workers import Task, failure_of
from pearl.lang.ast import Action
from pearl.lang.builtins import conclusion
from pearl.lang.library import Library, load_library, plan_library
from pearl.lang.output_files import check_kind, check_writable
from pearl.lang.parser import parse
from pearl.lang.source import Source
from pearl.lang.values import digest
from pearl.models.base import Model, Usage
from pearl.models.embeddings import choose_embedding
from pearl.models.routing import planner_of, with_library
from pearl.prompts.calls import Demonstration
from pearl.runtime.calls import Journal, calls_made, plan_come_to
from pearl.runtime.context import UNLIMITED, Context
from pearl.runtime.loop import RunError
from pearl.session import Session, context_for, heading
from pearl.strategies.preparation import prepare, prepare_plan, refuse_unused
from pearl.strategies.registry import (
    DEFAULT_LIMITS,
    DEFAULT_SETTINGS,
    OwnStrategy,
    Prepared,
    StrategySettings,
    limits_within,
)


@dataclass(frozen=True)
class Setup:
    """How the questions of a batch are answered.

    Args:
        prepared: the strategy.
        context: how much fits a prompt, and what to do with a longer document.
        plans: the actions that a question's own plan may call; None for the strategy's.
        examples: the most worked examples that a prompt for structured output shows.
        tools: the tools that may be called, as `open_tools` takes them.
    """

    prepared: Prepared
    context: Context = UNLIMITED
    plans: Library | None = None
    examples: int = 0
    tools: str | tuple[Action, ...] = ""

    def plan_problem(self, question: Question) -> str:
        """Why a question's own plan cannot run; empty where it can, or there is none."""
        try:
            if question.plan:
                self.prepare_plan(question.plan, self.plan_library(question.plan))
        except RunError as error:
            return str(error)
        return ""

    def prepare_plan(self, text: str, library: Library) -> Prepared:
        """Prepare a question's own plan, which replaces the strategy and calls a library's actions.

        Raises:
            RunError: the plan has errors.
        """
        return _prepare_plan(text, library, self.prepared.settings.passes)

    def plan_library(self, plan: str) -> Library:
        """The actions for a question: those for its own plan, or the strategy's if it is empty."""
        if not plan:
            return self.prepared.library
        return plan_library(Source("plan", plan), self.plans or self.prepared.library)

    def digest(self) -> str:
        """The hash of everything in the setup that may change an answer.

        Raises:
            InputError: the strategy embeds, and the embedding of the environment cannot be used.
        """
        prepared, spec = self.prepared, self.prepared.spec
        shown = [[demo.question, demo.plan] for demo in prepared.demonstrations]
        fitting = [self.context.policy, self.context.window, self.context.reply]
        how = [] if spec.name == "pearl" else [spec.name + spec.version]
        tools = self.tools if isinstance(self.tools, str) else ""
        if tools and (file := Path(tools)).is_file():
            tools = digest(file.read_text(encoding="utf-8"))
        elif not isinstance(self.tools, str):
            tools = load_library(*self.tools).digest
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
        if (limits := settings.limits) != DEFAULT_LIMITS:
            how.append(f"{limits.depth} deep")
        if limits != limits_within(limits.depth):
            how.append(f"{limits.steps} steps, {limits.calls} calls, {limits.width} wide")
        return digest([prepared.library.digest, shown, fitting, settings.passes, *how])


def make_setup(
    model: Model,
    strategy: str | OwnStrategy,
    library: Library | None,
    demonstrations: Sequence[Demonstration] | str | Path | None,
    settings: StrategySettings = DEFAULT_SETTINGS,
    *,
    fit: Callable[[Model], Context] = context_for,
    plans: Library | None = None,
    examples: int = 0,
    tools: str | tuple[Action, ...] = "",
) -> tuple[Setup, Model]:
    """Check how questions are to be answered.

    Args:
        model: the model that answers.
        strategy, library, demonstrations, settings, tools: as `prepare` takes them.
        fit: gives how much fits a prompt of these models.
        plans, examples: as in `Setup`.

    Returns:
        The setup, and the model together with the models that actions of the libraries name.

    Raises:
        InputError: an argument cannot be used.
    """
    planner = planner_of(model).name
    prepared = prepare(strategy, planner, library, demonstrations, settings, tools)
    refuse_unused(prepared, examples)
    model = with_library(model, filter(None, (prepared.library, plans)))
    return Setup(prepared, fit(model), plans, examples, tools), model


async def answer_row(setup: Setup, task: Task[QuestionTask], session: Session) -> dict[str, Any]:
    """Answer one question.

    Args:
        setup: how to answer.
        task: the question and its document.
        session: the model in its layers, and the question's journal.

    Returns:
        The row of the output, as JSON data. A question without an answer has
        an error in its row, and counts as wrong.
    """
    question, document, prepared = task.payload.question, task.payload.document, setup.prepared
    session = replace(session, examples=setup.examples)
    library = setup.plan_library(question.plan)
    count = None if question.plan else prepared.demonstrated
    model, options = session.engine.model, question.options
    head = heading(question.question, document, library, model, count, options)
    session.journal.decide("run", head)
    try:
        if question.plan:
            prepared = setup.prepare_plan(question.plan, library)
        async with open_tools(setup.tools) as tools:
            box = cached_tools(tools, session, question.id) if tools else None
            args = (question.question, document, options, session, None, box)
            reply = await answer(prepared, *args)
        # Only fields that do not depend on the run, or on which of its replies were cached.
        shown = (
            "answer words option evidence grounded plan fallback guessed lacks calls usage".split()
        )
        data = as_object(reply)
        correct = None
        if question.gold and reply.option:
            correct = reply.option.letter == question.gold
        elif question.gold:
            none = says_nothing(reply.text, model)
            correct = not none and holds(conclusion(reply.text), *question.golds)
        return _row(question, "answered", correct) | {name: data[name] for name in shown}
    except Exception as error:  # noqa: BLE001 - whatever it is, others go on
        return _failed_row(question, session.journal, error)


def _failed_row(question: Question, journal: Journal, error: Exception) -> dict[str, Any]:
    """The row of a question without an answer: the error, and how far it came."""
    plan, fallback = plan_come_to(journal.entries)
    done = calls_made(journal.entries)
    return {
        # Accuracies count a question without an answer as wrong.
        **_row(question, "failed", False if question.gold else None),
        "error": failure_of(error),
        "plan": plan or question.plan or None,
        "fallback": fallback,
        "calls": len(done),
        "usage": asdict(sum((entry.usage for entry in done), Usage())),
    }


def _row(question: Question, status: str, correct: bool | None) -> dict[str, Any]:
    """The fields that every row has."""
    return {
        "id": question.id,
        "question": question.question,
        **({"options": list(question.options)} if question.options else {}),
        "document": question.document,
        "status": status,
        "gold": " or ".join(question.golds) or None,
        **({"golds": list(question.golds)} if question.accepted else {}),
        "correct": correct,
    }


def batch_job(index: QuestionIndex, output: str, setup: Setup) -> Job:
    """Answering a file of questions.

    Args:
        index: the file.
        output: the file of answers.
        setup: how to answer.

    Raises:
        InputError: the output would overwrite the questions or a document, or the tools cannot be
            used.
    """
    if setup.tools:
        from pearl.tools.declared import check_tools

        # Checked now, or every row would fail for the same reason.
        check_tools(setup.tools, os.environ)
    if output:
        check_writable(output, (index.path, *index.files))
        check_kind(output, "file of answers")
    strategy = setup.prepared.spec.name
    return Job(
        "batch",
        {
            "questions": str(index.path),
            "count": len(index.places),
            "documents": str(index.folder),
            "output": output,
            "library": ", ".join(setup.prepared.library.names),
            **({"strategy": strategy} if strategy != "pearl" else {}),
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
        lambda task, error: _failed_row(task.payload.question, Journal(), error),
    )


@lru_cache(maxsize=1024)  # Plans are checked before the first call, and run after it.
def _prepare_plan(text: str, library: Library, passes: tuple[str, ...]) -> Prepared:
    return prepare_plan(parse(text), library, passes)
