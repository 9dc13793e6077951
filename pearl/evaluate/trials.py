"""Every method on every question, as one job."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pearl.agents import World
from pearl.answer import heading
from pearl.evaluate.about import planning_of
from pearl.evaluate.datasets import DATASETS, Dataset, Example
from pearl.evaluate.methods import METHODS, Kit, Method, Outcome, with_size
from pearl.evaluate.methods.base import LIBRARY
from pearl.evaluate.metrics.supporting_facts import form
from pearl.evaluate.reasoning import REASONING, read_labels
from pearl.evaluate.results import Evaluation, Result, as_row, from_row
from pearl.evaluate.shortening import shortened
from pearl.jobs import Task
from pearl.llm import LabelQuestion, ModelError, Usage
from pearl.llm.prices import Price
from pearl.retrieval import CorpusRetriever, Retriever
from pearl.runtime import Caller, Journal, RunError
from pearl.session import Session
from pearl.source import InputError
from pearl.strategies.registry import STRATEGIES, Known
from pearl.values import digest

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
    caller = Caller(session.engine.ask, session.engine.identity, session.journal)
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
