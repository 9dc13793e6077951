"""The job that tries every method on every question, and the evaluation made from its rows."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from pearl.answer import Option, says_nothing
from pearl.commaqa.world import World
from pearl.evaluate.datasets import find_dataset
from pearl.evaluate.datasets.base import Example
from pearl.evaluate.methods import find_method
from pearl.evaluate.methods.base import LIBRARY, EvaluationContext, Method, Outcome
from pearl.evaluate.methods.strategies import search_measures
from pearl.evaluate.results import (
    FAILED_CALLS,
    FAILED_TOKENS,
    UNFINISHED,
    Evaluation,
    Result,
    from_row,
    read_head,
    side_by_side,
)
from pearl.evaluate.supporting_facts import form, machine_measures
from pearl.jobs.answer_metrics import GRADING, Score, best_score
from pearl.jobs.workers import Task, failed_row, failure_of
from pearl.lang.errors import InputError
from pearl.lang.text import counted
from pearl.lang.values import digest
from pearl.models.base import Usage
from pearl.models.routing import Models
from pearl.models.tokens import Prices
from pearl.prompts.calls import FillSchema, LabelQuestion
from pearl.prompts.render import load_schema
from pearl.runtime.calls import (
    SchemaError,
    calls_made,
    failed_calls,
    fill,
    plan_come_to,
    spent_by_model,
)
from pearl.runtime.fit_to_window import check_choice
from pearl.runtime.loop import RunError
from pearl.session import Session, heading
from pearl.store.database import is_there, open_to_read
from pearl.store.history import RunFilter, RunRow, find_run, latest, list_runs
from pearl.store.history import read_rows as stored_rows

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
"""Kinds of reasoning, as QuALITY's authors name them (section 4.3), with their meanings."""

SHORT = r"(?:\S+[^\S\n]+){0,2}\S*[^\s.!?]"
"""The pattern of an answer that is short already: at most three words, and no sentence."""

MOST_LABELS = 2
"""The most kinds of reasoning that a question may have."""

BESIDE = "beside"
"""The key, in the head of an evaluation, of the fingerprints of all runs of its command."""

REASON_LABELS = "reasoning"
"""In place of a method's name, for a task that labels a question."""


def read_labels(reply: str) -> tuple[str, ...]:
    """The kinds of reasoning that a reply names, in order, at most `MOST_LABELS`; other text is
    ignored."""
    names = sorted((name for name, _ in REASONING), key=len, reverse=True)
    pattern = "|".join(map(re.escape, names))
    labels = re.findall(rf"(?<![\w/])(?:{pattern})(?![\w/])", reply.lower())
    return tuple(dict.fromkeys(labels))[:MOST_LABELS]


@dataclass(frozen=True)
class Trial:
    """A method to be tried on a question."""

    method: str
    example: Example


@dataclass(frozen=True)
class Trials:
    """The work of an evaluation's job: tries a method on a question.

    Args:
        dataset: the name of the data set.
        shared: what the methods share.
    """

    dataset: str
    shared: EvaluationContext

    async def __call__(self, task: Task[Trial], session: Session) -> dict[str, Any]:
        """Try one method on one question, or have the question labelled."""
        session = replace(session, examples=self.shared.examples)
        name, example = task.payload.method, task.payload.example
        journal, model = session.journal, session.engine.model
        method = None if name == REASON_LABELS else find_method(name, self.shared.own)
        working = self.shared.setup((method.setup if method else "") or LIBRARY)
        shown = len(working.demonstrations) if method and method.setup else None
        library = method.library(self.shared) if method else working.library
        asked = (example.question, example.document, library, model, shown)
        journal.decide("run", {**heading(*asked, example.options), "method": name})
        row: dict[str, Any] = {"id": task.id, "example": example.id, "status": "answered"}
        if method is None:
            return row | await _label(example, session)
        started = time.monotonic()
        outcome, score, measures = Outcome(None), Score(0.0), dict[str, float]()
        try:
            outcome = await self._answer(method, example, session)
            measures = {**outcome.measures}
            score = await self._score(example, outcome, measures, session)
        except Exception as raised:  # noqa: BLE001 - whatever it is, the question counts
            error = failure_of(raised)
            if outcome.answer is not None:
                error["message"] = f"The answer was not scored: {error['message']}"
            row |= {"status": "failed", "error": error}
        # Measured even without an answer; calls that grade it are not the method's.
        own = [entry for entry in journal.entries if not entry.path.startswith(f"{GRADING}/")]
        measures |= {**form(own), **search_measures(own), **machine_measures(example, own)}
        failed = failed_calls(own)
        measures |= {
            FAILED_CALLS: len(failed),
            FAILED_TOKENS: sum(each.usage.total for each in failed),
        }
        calls = calls_made(own)
        spent = spent_by_model(calls, model.name)
        # Recorded even where a step failed.
        plan, fallback = plan_come_to(own) if method.plans else ("", False)
        result = replace(
            _unanswered(name, example, row),
            score=score.value,
            answer=outcome.answer,
            orders=outcome.orders,
            words=outcome.words,
            plan=plan,
            fallback=fallback,
            calls=len(calls),
            usage=sum(spent.values(), Usage()),
            models=spent if isinstance(model, Models) else {},
            measures={**measures, "seconds": round(time.monotonic() - started, 3)},
            reason=score.reason,
        )
        correct = score.value == 1.0 if example.gold else None
        return {**row, "correct": correct, "result": asdict(result)}

    def fail(self, task: Task[Trial], error: Exception) -> dict[str, Any]:
        """The row of a trial that could not be finished; it counts as wrong."""
        name, example = task.payload.method, task.payload.example
        row = {**failed_row(task, error), "example": example.id}
        if name == REASON_LABELS:
            return row
        result = _unanswered(name, example, row)
        return {**row, "correct": False if example.gold else None, "result": asdict(result)}

    async def _answer(self, method: Method, example: Example, session: Session) -> Outcome:
        """A method's outcome for one question.

        If the data set has short answers, the model shortens an answer in sentences; the outcome's
        ``words`` keep the long one.
        """
        dataset = find_dataset(self.dataset)
        check_choice(example.question, example.options, session.context)
        outcome = await method.answer(example, self.shared, session)
        text = outcome.answer if dataset.short and method.prose else None
        if text is not None and not re.fullmatch(SHORT, text.strip()):
            inputs = (("question", example.question), ("answer", text))
            call = FillSchema(load_schema("short_answer"), inputs)
            try:
                reply = await fill(session.caller(), call, "short")
            except SchemaError as error:
                raise RunError(str(error)) from None
            session.journal.decide("short", reply["answer"])
            outcome = replace(outcome, answer=reply["answer"])
        return outcome

    async def _score(
        self, example: Example, outcome: Outcome, measures: dict[str, float], session: Session
    ) -> Score:
        """Score an outcome, and add the data set's measures of it to ``measures``."""
        dataset, metric = find_dataset(self.dataset), self.shared.metric
        # The offline reader's words for no answer could match a gold answer by chance; the user's
        # own metric decides about them itself.
        usable = metric or example.options or not says_nothing(outcome.words, session.engine.model)
        if outcome.answer is None or not usable:
            return Score(0.0)
        measures |= {**dataset.measures(example, outcome.answer), **measures}
        if metric:
            asked = (example.question, example.options, example.golds)
            return await best_score(metric, *asked, outcome.answer, session)
        return Score(dataset.score(example, outcome.answer))


def _unanswered(method: str, example: Example, row: Mapping[str, Any]) -> Result:
    """The result of a trial that has a row, but no answer so far."""
    return Result(
        method=method,
        id=example.id,
        split=example.split,
        score=0.0,
        gold=" or ".join(example.golds),
        golds=example.golds if example.accepted else (),
        labels=dict(example.labels),
        question=example.question,
        options=example.options,
        error=row.get("error", {}).get("message", ""),
    )


async def _label(example: Example, session: Session) -> dict[str, Any]:
    """Ask the model which kinds of reasoning a question needs, for its row."""
    try:
        call = LabelQuestion(example.question, REASONING)
        labels = list(read_labels((await session.caller()(call, "label")).text))
        session.journal.decide("labels", labels)
    except Exception as raised:  # noqa: BLE001 - whatever it is, the others go on
        return {"status": "failed", "error": failure_of(raised)}
    return {"labels": labels}


def trial_tasks(
    examples: Sequence[Example],
    methods: Sequence[str],
    shared: EvaluationContext,
    dataset: str = "",
) -> Iterator[Task[Trial]]:
    """A task for each question and method; those about one document are together.

    A task's key covers all that decides its row, including the data set and all gold answers, so
    that a corrected question is answered and scored again. If questions are to be labelled,
    `REASON_LABELS` is among the methods.
    """
    digests = {name: shared.digest(name) for name in methods}
    position = 0
    # Questions of one world follow each other, so its digest is computed once.
    data, data_digest = None, ""
    for example in examples:
        document = example.document.digest
        if not data_digest or example.data is not data:
            data = example.data
            # A world's questions are other examples, and its facts in words are the document, so
            # only what its agents know and what answers rest on is added.
            if isinstance(data, World):
                used = [question.facts for question in data.questions]
                data_digest = digest([repr((data.facts, data.language.templates, used))])
            else:
                data_digest = digest([repr(data)])
        labels = {kind: list(names) for kind, names in example.labels.items()}
        asked = [example.question, example.options, *example.golds]
        parts = [*asked, example.split, labels, document]
        for name in methods:
            key = digest([dataset, *parts, data_digest, digests[name]])
            yield Task(f"{name}/{example.id}", position, key, document, Trial(name, example))
            position += 1


def evaluation_of(
    rows: Iterable[dict[str, Any]], head: Mapping[str, Any], prices: Prices, model: str
) -> Evaluation:
    """The evaluation made from a job's rows.

    Args:
        rows: as `Trials` gives them.
        head: the evaluation's entry in the head of the job.
        prices: the price table.
        model: the name of the run's model, where it has one.
    """
    results: list[Result] = []
    labels: dict[str, tuple[str, ...]] = {}
    for row in rows:
        if "labels" in row:
            labels[row["example"]] = tuple(row["labels"])
        elif "result" in row:
            results.append(from_row(row["result"]))

    def completed(result: Result) -> Result:
        own = labels.get(result.id)
        return replace(
            result,
            labels={**result.labels, **({REASON_LABELS: own} if own else {})},
            cost=prices.cost(result.models or {model: result.usage}),
        )

    return replace(read_head(head, "The run"), results=tuple(map(completed, results)))


def answers_of(
    rows: Iterable[dict[str, Any]], head: Mapping[str, Any], prices: Prices, model: str
) -> Evaluation:
    """A batch's rows as an evaluation of one method.

    Args:
        rows: as `pearl.jobs.batch` gives them; one without a gold answer is neither right nor
            wrong.
        head: the head of the batch's run.
        prices, model: as `evaluation_of` takes them.
    """
    results = []
    for row in rows:
        option = Option(**row["option"]) if row.get("option") else None
        usage = Usage(**row["usage"])
        measures: dict[str, float] = {
            key: float(row[key]) for key in ("grounded", "guessed") if key in row
        }
        measures |= {"none_fits": float(not option.fits)} if option else {}
        results.append(
            Result(
                method="batch",
                id=row["id"],
                score=float(bool(row["correct"])),
                gold=row["gold"] or "",
                golds=tuple(row.get("golds", ())),
                # Where there are options, words that name none are no answer.
                answer=option.named if option else row.get("answer"),
                question=row["question"],
                options=tuple(row.get("options", ())),
                words=row.get("words") or "",
                plan=row.get("plan") or "",
                error=row.get("error", {}).get("message", ""),
                fallback=row.get("fallback", False),
                calls=row["calls"],
                usage=usage,
                cost=prices.cost({model: usage}),
                measures=measures,
            )
        )
    questions = str(head.get("questions", ""))
    about = tuple((key, str(head[key])) for key in ("questions", "library") if head.get(key))
    counts = {"": len(results)}
    return Evaluation(f"Batch: {questions}", about, ("batch",), counts, tuple(results))


def load_run(name: str, place: str, prices: Prices) -> Evaluation:
    """The evaluation of a stored run, or of a batch.

    Args:
        name: the run's name, the beginning of it, or ``last`` for the last evaluation. If that
            command evaluated several models or sets of demonstrations, all that have ended are
            put side by side.
        place: the store's file or address.
        prices: the price table.

    Raises:
        InputError: there is no such run, it is neither an evaluation nor a batch, or it has not
            ended and has nothing to count yet.
    """
    if not is_there(place):
        raise InputError(f"There is no store at {place}: make an evaluation with pearl eval.")
    engine, now = open_to_read(place), time.time()
    try:
        runs = _last(engine, place, now) if name == "last" else [find_run(engine, name, place, now)]
        rows = {run.name: [row for _, row in stored_rows(engine, run.name)] for run in runs}
    finally:
        engine.dispose()
    return side_by_side([_loaded(run, rows[run.name], prices) for run in runs])


def _last(engine: Engine, place: str, now: float) -> Sequence[RunRow]:
    """The ended runs of the last evaluation's command, or only the last run while it has not ended.
    Raises `InputError` where there is none."""
    last = list_runs(engine, now, 1, RunFilter(kind="eval"))
    if not last:
        batches = list_runs(engine, now, 1, RunFilter(kind="batch"))
        hint = "".join(f" The last batch's report is pearl report {run.name}." for run in batches)
        raise InputError(f"There is no evaluation in {place}: make one with pearl eval.{hint}")
    [run] = last
    known = run.head["evaluation"].get(BESIDE, ()) if run.ended is not None else ()
    every = (latest(engine, fingerprint, now) for fingerprint in known)
    return [other for other in every if other is not None and other.ended is not None] or [run]


def _loaded(run: RunRow, rows: Sequence[dict[str, Any]], prices: Prices) -> Evaluation:
    """The evaluation of one stored run, given its rows."""
    if run.kind not in ("eval", "batch"):
        raise InputError(f"The run {run.name} is no evaluation: pearl {run.kind} made it.")
    model = str(run.head.get("model", ""))
    if run.kind == "batch":
        evaluation = answers_of(rows, run.head, prices, model)
    else:
        evaluation = evaluation_of(rows, run.head["evaluation"], prices, model)
    unfinished = run.unfinished(len(rows))
    if unfinished:
        evaluation = _of_all_methods(evaluation)
        if not evaluation.results:
            nothing = "no question is answered by every method" if rows else "nothing to report"
            raise InputError(
                f"{run.name} {unfinished}: {nothing}. The command that began it goes on with it."
            )
        unfinished += f"; every figure is of {counted(evaluation.count(), 'question')} alone"
    began = time.strftime("begun %Y-%m-%d %H:%M UTC", time.gmtime(run.started))
    facts = (
        ("model", model),
        *((key, str(run.head[key])) for key in ("sampling", "constrain") if run.head.get(key)),
        ("run", f"{run.name}, {began}"),
        *([(UNFINISHED, unfinished)] if unfinished else []),
    )
    return replace(evaluation, about=(*facts, *evaluation.about))


def _of_all_methods(evaluation: Evaluation) -> Evaluation:
    """An unfinished evaluation with only the questions that every method has a result for."""
    done = Counter((result.split, result.id) for result in evaluation.results)
    whole = {key for key, count in done.items() if count == len(evaluation.methods)}
    return replace(
        evaluation,
        results=tuple(item for item in evaluation.results if (item.split, item.id) in whole),
        asked={split: sum(own == split for own, _ in whole) for split in evaluation.asked},
    )
