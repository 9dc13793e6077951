"""From a data set's file and the methods' names to a job.

Every method on every question, as one job.

Kinds of reasoning that questions ask for, as QuALITY's authors name them (section 4.3).

Evaluations that are in a store.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pearl.answer import heading
from pearl.commaqa.world import World
from pearl.evaluate.conditions import planning_of, shortened, told_plannings, told_settings
from pearl.evaluate.datasets import DATASETS
from pearl.evaluate.datasets.base import Dataset, Example
from pearl.evaluate.methods import METHODS, with_size
from pearl.evaluate.methods.base import (
    EXECUTE,
    LIBRARY,
    STEPWISE,
    UNREFINED,
    Kit,
    Method,
    Outcome,
    Planning,
)
from pearl.evaluate.results import Evaluation, Result, as_row, from_row
from pearl.evaluate.supporting_facts import form
from pearl.jobs.job import Job
from pearl.jobs.workers import Listed, Task
from pearl.lang.library import Library, load_library
from pearl.lang.parser import parse
from pearl.lang.source import InputError, Source
from pearl.lang.values import digest
from pearl.mining.condense import condense
from pearl.models.base import ModelError, Usage
from pearl.models.prices import Price, Prices
from pearl.passes import DEFAULT_PASSES
from pearl.prompts.calls import LabelQuestion
from pearl.retrieval.index import CorpusRetriever
from pearl.retrieval.retriever import Retriever
from pearl.run.context import Context
from pearl.run.journal import Journal
from pearl.run.loop import RunError
from pearl.session import Session
from pearl.store.database import is_there, open_database
from pearl.store.history import RunRow, find_run, list_runs
from pearl.store.history import read_rows as stored_rows
from pearl.strategies.planner import choose_demonstrations
from pearl.strategies.registry import NEEDS_MODEL, OFFLINE, STRATEGIES, Known

if TYPE_CHECKING:
    from sqlalchemy import Engine


REASONING = (
    ("description", "what somebody or something is like"),
    ("why/reason", "why something happens or is done"),
    ("symbolism/interpretation", "what something stands for, or how it is to be understood"),
    ("how/method", "how something is done or comes about"),
    ("event", "what happens"),
    ("person", "who somebody is, or who does something"),
    ("not/except", "what is not so, or is the exception"),
    ("relation", "how people or things stand to each other"),
    ("entity", "what a thing or a group is"),
    ("numeric", "how many or how much"),
    ("location", "where something is or happens"),
    ("what if", "what would be if something were otherwise"),
    ("object", "which thing is used, owned or meant"),
    ("duration", "how long something lasts"),
    ("finish the phrase", "the end of a sentence that the question begins"),
    ("other", "none of the kinds above"),
)
"""Names, and what each means."""

MOST = 2
"""Kinds that a question may have."""


def read_labels(reply: str) -> tuple[str, ...]:
    """The kinds that a reply names, in its order, at most two.

    Args:
        reply: as a model wrote it; what is no kind is passed over.
    """
    names = [name for name, _ in REASONING]
    pattern = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    found = re.findall(rf"(?<![\w/])(?:{pattern})(?![\w/])", reply.lower())
    return tuple(dict.fromkeys(found))[:MOST]


REASON_LABELS = "reasoning"
"""Stands for the method in a task that labels a question."""


@dataclass(frozen=True)
class Trial:
    """A method to be tried on a question."""

    method: str
    example: Example


@dataclass(frozen=True)
class Trials:
    """Tries methods.

    Args:
        dataset: the name of the data set.
        kit: what the methods share.
    """

    dataset: str
    kit: Kit

    async def __call__(self, task: Task[Trial], session: Session) -> dict[str, Any]:
        """Try one method on one question."""
        trial = task.what
        example = trial.example
        library = self.kit.plannings[planning_of(trial.method, self.kit) or LIBRARY].library
        head = heading(example.question, example.document, library, session.engine.model)
        session.journal.decide("run", {**head, "method": trial.method})
        started = time.monotonic()
        try:
            if trial.method == REASON_LABELS:
                return {
                    **_asked(task),
                    "status": "answered",
                    "labels": await _label(trial, session),
                }
            method, dataset = find_method(trial.method), find_dataset(self.dataset)
            outcome = await method.answer(example, self.kit, session)
            if dataset.short and method.prose:
                outcome = await shortened(outcome, example.question, session)
        except (RunError, ModelError, InputError) as error:
            return _failed(task, error, session.journal, self._told(session.journal, started))
        score = 0.0
        if outcome.answer is not None:
            score = dataset.score(example, outcome.answer)
        result = _result(trial, outcome, score, session.journal)
        found = dataset.measures(example, outcome.answer) if outcome.answer is not None else {}
        told = self._told(session.journal, started)
        result = replace(result, measures={**found, **outcome.measures, **told})
        correct = score == 1.0 if example.gold else None
        return {**_asked(task), "status": "answered", "correct": correct, "result": as_row(result)}

    def _told(self, journal: Journal, started: float) -> dict[str, float]:
        """What a run's journal and the clock say of it, whether it came to an answer or not."""
        found = form(journal.entries) if find_dataset(self.dataset).short else {}
        return {**found, "seconds": round(time.monotonic() - started, 3)}


def trial_tasks(
    examples: Sequence[Example], methods: Sequence[str], kit: Kit, dataset: str = ""
) -> Iterator[Task[Trial]]:
    """A task for each method and question, those of one document together.

    Its key has what decides the row, and so the gold in all its forms: a
    question that was mended is asked and scored anew.

    Args:
        examples: the questions.
        methods: names; `REASON_LABELS` is one of them where questions are to
            be labelled.
        kit: what the methods share.
        dataset: the data set's name, by whose rules answers are scored.
    """
    digests = {name: kit_digest(kit, name) for name in methods}
    position = 0
    # The questions of a world share it, and stand together.
    data, known = None, ""
    for example in examples:
        document = example.document.digest
        if not known or example.data is not data:
            data, known = example.data, _known(example.data)
        labels = {kind: list(names) for kind, names in example.labels.items()}
        given = [example.question, example.options, example.gold, example.split, labels, document]
        for name in methods:
            asked = [dataset, *given, known, digests[name]]
            trial = Trial(name, example)
            yield Task(f"{name}/{example.id}", position, digest(asked), document, trial)
            position += 1


def find_dataset(name: str) -> Dataset:
    """The data set of a name.

    Raises:
        InputError: there is none.
    """
    for one in DATASETS:
        if one.name == name:
            return one
    known = ", ".join(one.name for one in DATASETS)
    raise InputError(f"There is no data set {name}: use one of {known}.")


def find_method(name: str) -> Method:
    """The method of a name.

    Raises:
        InputError: there is none.
    """
    family, _, size = name.partition("@")
    if family == "pearl" and size.isdecimal() and int(size):
        return with_size(int(size))
    for one in METHODS:
        if one.name == name:
            return one
    known = ", ".join((*(one.name for one in METHODS), "pearl@N"))
    raise InputError(f"There is no method {name}: use one of {known}.")


def evaluation_of(
    rows: Iterable[dict[str, Any]], head: dict[str, Any], price: Price | None
) -> Evaluation:
    """What a job's rows come to.

    Args:
        rows: as `Trials` gives them.
        head: what the job says of the evaluation.
        price: what the model's tokens cost.
    """
    results: list[Result] = []
    labels: dict[str, tuple[str, ...]] = {}
    for row in rows:
        if "labels" in row:
            labels[row["example"]] = tuple(row["labels"])
        elif "result" in row:
            results.append(from_row(row["result"]))
    told = [_finished(one, labels.get(one.id, ()), price) for one in results]
    return Evaluation(
        title=head["title"],
        about=tuple((name, text) for name, text in head["about"]),
        methods=tuple(head["methods"]),
        asked=dict(head["asked"]),
        results=tuple(told),
        notes=tuple(head["notes"]),
    )


def asked_of(examples: Iterable[Example]) -> dict[str, int]:
    """How many questions each split has."""
    return dict(Counter(example.split for example in examples))


def _finished(result: Result, labels: tuple[str, ...], price: Price | None) -> Result:
    known = {**result.labels, **({REASON_LABELS: labels} if labels else {})}
    cost = price.cost(result.usage) if price else None
    return replace(result, labels=known, cost=cost)


async def _label(trial: Trial, session: Session) -> list[str]:
    caller = session.caller()
    reply = await caller(LabelQuestion(trial.example.question, REASONING), "label")
    found = read_labels(reply.text)
    session.journal.decide("labels", list(found))
    return list(found)


def _asked(task: Task[Trial]) -> dict[str, Any]:
    return {"id": task.id, "example": task.what.example.id}


def _failed(
    task: Task[Trial],
    error: RunError | ModelError | InputError,
    journal: Journal,
    measures: Mapping[str, float],
) -> dict[str, Any]:
    row = {
        **_asked(task),
        "status": "failed",
        "error": {"reason": _reason(error), "message": str(error), "steps": []},
    }
    if task.what.method == REASON_LABELS:
        return row
    # Every question counts: one without an answer is wrong.
    result = _result(task.what, Outcome(None), 0.0, journal)
    row["correct"] = False if task.what.example.gold else None
    return {**row, "result": as_row(replace(result, error=str(error), measures=measures))}


def _reason(error: RunError | ModelError | InputError) -> str:
    if isinstance(error, ModelError):
        return error.reason
    return "input" if isinstance(error, InputError) else "reply"


def _result(trial: Trial, outcome: Outcome, score: float, journal: Journal) -> Result:
    done = [one for one in journal.entries if one.kind == "call" and one.status == "done"]
    example = trial.example
    return Result(
        method=trial.method,
        id=example.id,
        split=example.split,
        score=score,
        gold=example.gold,
        answer=outcome.answer,
        orders=outcome.orders,
        labels=dict(example.labels),
        question=example.question,
        options=example.options,
        words=outcome.words,
        plan=outcome.plan,
        fallback=outcome.fallback,
        calls=len(done),
        usage=sum((one.usage for one in done), Usage()),
    )


def _known(data: Any) -> str:  # noqa: ANN401 - as an example has it
    """The hash of what is known of a question beside its words; of a world, what its agents know.

    A world's questions are examples of their own, and its facts in words are the document.
    """
    known = (data.facts, data.language.templates) if isinstance(data, World) else data
    return digest([repr(known)])


def kit_digest(kit: Kit, method: str) -> str:
    """The hash of what decides a method's answers beside the question."""
    shown = {
        name: [one.library.digest, [[each.question, each.plan] for each in one.demonstrations]]
        for name, one in kit.plannings.items()
    }
    searched = kit.search.digest if kit.search else ""
    limits = [kit.limits.steps, kit.limits.depth, kit.limits.calls, kit.limits.width]
    uses = next((one for one in STRATEGIES if one.name == method), None)
    tools = kit.tools.digest if kit.tools else ""
    known: Known = {"tools": lambda: tools, "embedding": lambda: kit.embed.identity}
    reached = uses.decisive(known) if uses else []
    asked = [method, shown, kit.passes, searched, _retrieved(kit.retriever), limits]
    return digest([*asked, reached])


def _retrieved(retriever: Retriever | None) -> list[str]:
    """What decides which passages are found; a document is part of the question."""
    if isinstance(retriever, CorpusRetriever):
        return [retriever.info.digest, retriever.info.engine]
    return [type(retriever).__name__] if retriever else []


@dataclass(frozen=True)
class Demonstrations:
    """Example plans for an evaluation.

    Args:
        refined: plans with their question.
        unrefined: the same as they were written first; empty where they are
            not known.
        left_out: questions that are evaluated, so that their plans are not
            shown.
    """

    refined: tuple[Source, ...]
    unrefined: tuple[Source, ...] = ()
    left_out: tuple[str, ...] = ()


def choose_examples(
    dataset: Dataset, path: str, split: str, limit: int = 0, folder: str = ""
) -> list[Example]:
    """The questions to be evaluated.

    Args:
        dataset: the data set.
        path: its file.
        split: one of its splits; ``all`` for every one.
        limit: how many at most, the first of the file; 0 for all.
        folder: where documents are; empty for the file's own.

    Raises:
        InputError: the file cannot be used, has no such question, or one
            whose right answer is not known.
    """
    if split not in (*dataset.splits, "all"):
        known = ", ".join((*dataset.splits, "all"))
        raise InputError(f"{dataset.title} has no split {split}: use one of {known}.")
    found = [one for one in dataset.read(path, folder) if split in ("all", one.split)]
    if not found:
        raise InputError(f"{path} has no question in the split {split}: name another.")
    found = found[:limit] if limit else found
    unknown = next((one for one in found if not one.gold), None)
    if unknown is not None:
        raise InputError(
            f"{path}: the right answer of question {unknown.id} is not known, so it cannot be "
            "scored: give a part of the data that has gold answers."
        )
    return found


def apart(demonstrations: Demonstrations, examples: Sequence[Example]) -> Demonstrations:
    """Demonstrations without those whose question is evaluated.

    A plan that was refined until its answer was right would otherwise be
    shown to the planner beside the very question it answers.

    Args:
        demonstrations: all there are.
        examples: the questions to be evaluated.
    """
    asked = {_folded(one.question) for one in examples}
    kept, left_out = _kept(demonstrations.refined, asked)
    unrefined, _ = _kept(demonstrations.unrefined, asked)
    return Demonstrations(kept, unrefined, left_out)


def make_kit(
    library: Library,
    demonstrations: Demonstrations,
    sizes: Sequence[int] = (),
    passes: tuple[str, ...] = DEFAULT_PASSES,
    stepwise: Demonstrations | None = None,
) -> Kit:
    """What methods share.

    Args:
        library: the actions that plans may call.
        demonstrations: none of an evaluated question (`apart`).
        sizes: numbers of actions that the library is also condensed to.
        passes: names of rewrites that plans go through.
        stepwise: what decompositions over passages are written after, where the library and
            the demonstrations are for whole plans; None where they are for decompositions.
    """
    refined = demonstrations.refined
    plannings = {
        LIBRARY: _planning(library, refined),
        UNREFINED: _planning(library, demonstrations.unrefined),
        EXECUTE: _planning(load_library("execute"), refined),
    }
    for size in sizes:
        plannings[f"@{size}"] = _planning(_condensed(library, size), refined)
    if stepwise is not None:
        plannings[STEPWISE] = _planning(load_library("open_domain"), stepwise.refined)
    return Kit(plannings, passes)


def evaluation_job(
    dataset: Dataset,
    path: str,
    split: str,
    examples: Sequence[Example],
    methods: Sequence[str],
    kit: Kit,
    context: Context,
    *,
    model: str = "",
    reasoning: bool = False,
    notes: Sequence[str] = (),
) -> Job:
    """Evaluating methods on a data set.

    Args:
        dataset: the data set.
        path: its file.
        split: the split that the examples are of.
        examples: the questions.
        methods: names; the first is what the others are compared with.
        kit: what they share.
        context: how much fits a prompt.
        model: the name of the model that is to answer.
        reasoning: whether the model is to label each question's kind.
        notes: what a reader must know, in whole sentences.

    Raises:
        InputError: there is no such method, or it lacks what it needs.
    """
    for name in methods:
        method = find_method(name)
        lacking = method.lacks(kit, examples[0])
        if method.needs_model and model == OFFLINE:
            lacking = NEEDS_MODEL
        if lacking:
            raise InputError(f"{name} {lacking}")
    every = (*methods, *((REASON_LABELS,) if reasoning else ()))
    library = kit.plannings[LIBRARY].library
    part = "" if split == "all" else f", {split} split"
    evaluation: dict[str, Any] = {
        "title": f"{dataset.title}{part}",
        "about": [
            [
                "data",
                f"{path}, {_counted(len(examples), 'question')}, "
                f"{_counted(_documents(examples), 'document')}",
            ],
            *told_plannings(methods, kit),
            *told_settings(methods, kit),
        ],
        "methods": list(methods),
        "asked": asked_of(examples),
        "notes": list(notes),
    }
    head = {
        "questions": path,
        "count": len(examples),
        "split": split,
        "methods": ", ".join(every),
        "library": ", ".join(library.names),
        "evaluation": evaluation,
    }
    known = {
        "data": str(Path(path).resolve()),
        "examples": digest([one.id for one in examples]),
        "methods": every,
        "library": library.digest,
        # Two settings are two runs, which stand side by side.
        "kit": digest([kit_digest(kit, name) for name in every]),
        "context": [context.policy, context.window, context.reply],
    }
    tasks = Listed(tuple(trial_tasks(examples, every, kit, dataset.name)))
    return Job("eval", head, known, tasks, Trials(dataset.name, kit), context)


def _planning(library: Library, sources: Sequence[Source]) -> Planning:
    return Planning(library, choose_demonstrations(sources, library))


def _condensed(library: Library, size: int) -> Library:
    """The library with so many actions beside the builtins."""
    own = {name: one for name, one in library.actions.items() if one.is_builtin}
    others = [one for one in library.actions.values() if not one.is_builtin]
    small = condense(others, size).actions
    names = (*library.names, f"condensed to {size:,}")
    return Library(names, {**own, **{one.name: one for one in small}})


def _kept(sources: Sequence[Source], asked: set[str]) -> tuple[tuple[Source, ...], tuple[str, ...]]:
    questions = [(one, parse(one).plan.question) for one in sources]
    kept = tuple(one for one, question in questions if _folded(question) not in asked)
    left_out = tuple(question for _, question in questions if _folded(question) in asked)
    return kept, left_out


def _folded(question: str) -> str:
    """A question in the form it is compared in: case, spaces and its last mark do not count."""
    return " ".join(question.split()).casefold().rstrip("?.! ")


def _documents(examples: Sequence[Example]) -> int:
    return len({one.document.digest for one in examples})


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s'[: number != 1]}"


def load_run(name: str, place: str, prices: Prices) -> Evaluation:
    """The evaluation of a run.

    Args:
        name: the run's, the beginning of it, or ``last``.
        place: the store's file or address.
        prices: what models cost.

    Raises:
        InputError: there is no such run, or it is no evaluation.
    """
    if not is_there(place):
        raise InputError(f"There is no store at {place}: make an evaluation with pearl eval.")
    engine = open_database(place)
    try:
        run = _last(engine, place) if name == "last" else find_run(engine, name, place, time.time())
        if run.kind != "eval":
            raise InputError(f"The run {run.name} is no evaluation: pearl {run.kind} made it.")
        rows = [row for _, row in stored_rows(engine, run.name)]
    finally:
        engine.dispose()
    model = str(run.head.get("model", ""))
    found = evaluation_of(rows, run.head["evaluation"], prices.get(model))
    began = time.strftime("%Y-%m-%d %H:%M", time.gmtime(run.started))
    made = (("model", model), ("run", f"{run.name}, begun {began} UTC"))
    return replace(found, about=(*made, *found.about))


def _last(engine: Engine, place: str) -> RunRow:
    """The last evaluation."""
    for run in list_runs(engine, time.time()):
        if run.kind == "eval":
            return run
    raise InputError(f"There is no evaluation in {place}: make one with pearl eval.")
