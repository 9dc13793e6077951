"""Results in formats of other tools: a log of Inspect, and a folder that Hugging Face's
``datasets`` reads."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory
from typing import Any

from pearl.evaluate.report import summarise
from pearl.evaluate.results import UNFINISHED, Evaluation, Result
from pearl.lang.errors import InputError, install_command
from pearl.lang.output_files import unwritable, write
from pearl.lang.text import counted
from pearl.report.document import Report, Text
from pearl.report.text import markdown

ROWS, CARD = "test.jsonl", "README.md"
"""The files of a folder."""


def with_gold(evaluation: Evaluation) -> Evaluation:
    """An evaluation with only the results that have a gold answer, and so can be counted.

    Raises:
        InputError: no result has a gold answer.
    """
    results = tuple(result for result in evaluation.results if result.gold)
    missing = len(evaluation.results) - len(results)
    if not missing:
        return evaluation
    if not results:
        raise InputError(
            "No row has a gold answer, so there is nothing to count: -o FILE.eval or -o FOLDER/ "
            "writes the answers themselves."
        )
    questions = Counter(split for split, _ in {(result.split, result.id) for result in results})
    note = f"{counted(missing, 'row')} without a gold answer left out."
    return replace(evaluation, results=results, asked=questions, notes=(*evaluation.notes, note))


def write_inspect(evaluation: Evaluation, method: str, path: str) -> None:
    """Write a method's results as a log of Inspect (``inspect view``), one sample per question.

    Args:
        evaluation: the results.
        method: the name of the method; empty where there is only one.
        path: the log, which ends in ``.eval``.

    Raises:
        InputError: Inspect is not installed, there are several methods and none is named, or the
            file cannot be written.
    """
    try:
        from inspect_ai import log
    except ImportError:
        raise InputError(f"A log of Inspect needs it: {install_command('inspect')}.") from None
    names = evaluation.methods
    chosen = method or (names[0] if len(names) == 1 else "")
    if chosen not in names:
        wrong = f"There is no method {method}" if method else f"{path} holds one method"
        raise InputError(f"{wrong}: say --method with one of {', '.join(names)}.")
    about = dict(evaluation.about)
    model = about.get("model", "")
    results = evaluation.results_of(chosen)
    samples = [_sample(log, result, model) for result in results]
    now = time.time()
    took = sum(result.measures.get("seconds", 0.0) for result in results)
    stats = log.EvalStats(started_at=_moment(now - took), completed_at=_moment(now))
    document = log.EvalLog(
        status="cancelled" if UNFINISHED in about else "success",
        eval=log.EvalSpec(
            created=_moment(now),
            run_id=about.get("run", "").partition(",")[0],
            task=evaluation.title,
            task_id=f"{evaluation.title}, {chosen}",
            solver=chosen,
            dataset=log.EvalDataset(name=evaluation.title, samples=len(samples)),
            model=model,
            config=log.EvalConfig(),
            packages={"pearl": version("pearl")},
            metadata=about,
        ),
        results=_scores(log, results),
        stats=stats if took else log.EvalStats(),
        samples=samples,
    )
    try:
        with TemporaryDirectory() as folder:
            file = Path(folder) / "whole.eval"
            log.write_eval_log(document, str(file))
            write(path, file.read_bytes())
    except OSError as wrong:
        raise unwritable(path, wrong) from None


def _scores(log: Any, results: Sequence[Result]) -> Any:  # noqa: ANN401 - Inspect's own
    """Inspect's mean and standard error of a method's scores, over the questions with a score."""
    scores = [score for result in results if (score := result.known_score) is not None]
    mean = fmean(scores) if scores else 0.0
    error = stdev(scores) / len(scores) ** 0.5 if len(scores) > 1 else 0.0
    metrics = {"accuracy": mean, "stderr": error} if scores else {}
    score = log.EvalScore(
        name="pearl",
        scorer="pearl",
        scored_samples=len(scores),
        unscored_samples=len(results) - len(scores),
        metrics={name: log.EvalMetric(name=name, value=value) for name, value in metrics.items()},
    )
    return log.EvalResults(
        total_samples=len(results),
        completed_samples=sum(not result.error for result in results),
        scores=[score],
    )


def _moment(seconds: float) -> str:
    """A time, in seconds since 1970, as Inspect writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(seconds))


def _sample(log: Any, result: Result, model: str) -> Any:  # noqa: ANN401 - of Inspect's
    from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelOutput, ModelUsage
    from inspect_ai.scorer import Score

    spent = result.models or {model: result.usage}
    text = result.words or result.answer or ""
    score = Score(value=result.score, answer=result.answer, explanation=result.reason or None)
    return log.EvalSample(
        id=f"{result.split}/{result.id}" if result.split else result.id,
        epoch=1,
        input=result.question,
        choices=list(result.options) or None,
        target=list(result.golds) or result.gold,
        messages=[ChatMessageUser(content=result.question), ChatMessageAssistant(content=text)],
        output=ModelOutput.from_content(model, text),
        scores=None if result.known_score is None else {"pearl": score},
        metadata={
            "plan": result.plan,
            "fallback": result.fallback,
            "calls": result.calls,
            "cost_micro_dollars": result.cost,
            **{f"label_{name}": list(labels) for name, labels in result.labels.items()},
            **result.measures,
        },
        model_usage={
            name: ModelUsage(
                input_tokens=usage.prompt_tokens,
                output_tokens=usage.completion_tokens,
                total_tokens=usage.total,
                input_tokens_cache_read=usage.cached_tokens,
            )
            for name, usage in spent.items()
        },
        total_time=result.measures.get("seconds"),
        error=log.EvalError(message=result.error, traceback="", traceback_ansi="")
        if result.error
        else None,
    )


_TEXTS = ("method", "id", "split", "question", "gold", "answer", "words", "reason", "plan",
          "error")  # fmt: skip
_COUNTS = ("calls", "prompt_tokens", "completion_tokens", "cached_tokens", "cost_micro_dollars")


def write_dataset(evaluation: Evaluation, folder: str) -> None:
    """Write all results as a folder that ``datasets.load_dataset`` reads: rows, and a card.

    Args:
        evaluation: the results.
        folder: a new folder, or one that was written before.

    Raises:
        InputError: the folder has other files, or cannot be written.
    """
    place = Path(folder)
    try:
        place.mkdir(exist_ok=True)
        other = sorted(file.name for file in place.iterdir() if file.name not in (ROWS, CARD))
    except OSError as error:
        raise unwritable(folder, error, "a new folder of your own") from None
    if other:
        raise InputError(f"{folder} has other files, as {other[0]}: name a new folder.")
    rows = [_row(result) for result in evaluation.results]
    measures = sorted({name for row in rows for name in row["measures"]})
    labels = sorted({name for row in rows for name in row["labels"]})
    features = [
        *((name, "dtype: string") for name in _TEXTS),
        ("options", "list: string"),
        ("golds", "list: string"),
        ("score", "dtype: float64"),
        ("fallback", "dtype: bool"),
        *((name, "dtype: int64") for name in _COUNTS),
        *((f"label_{name}", "list: string") for name in labels),
        *((f"measure_{name}", "dtype: float64") for name in measures),
    ]
    lines = []
    for row in rows:
        measured, kinds = row.pop("measures"), row.pop("labels")
        row |= {f"measure_{name}": measured.get(name) for name in measures}
        row |= {f"label_{name}": list(kinds.get(name, ())) for name in labels}
        lines.append(json.dumps({name: row[name] for name, _ in features}, ensure_ascii=False))
    write(str(place / ROWS), "".join(f"{line}\n" for line in lines))
    write(str(place / CARD), _card(evaluation, features))


def _row(result: Result) -> dict[str, Any]:
    row = asdict(result)
    usage = row.pop("usage")
    return {
        **row,
        **usage,
        "score": result.known_score,
        "options": list(result.options),
        "cost_micro_dollars": result.cost,
    }


def _card(evaluation: Evaluation, features: Sequence[tuple[str, str]]) -> str:
    """The text of the card: a head that ``datasets`` reads, and a report for people."""
    methods = Counter(result.method for result in evaluation.results)
    head = [
        "---",
        f"pretty_name: {json.dumps(evaluation.title)}",
        "configs:",
        "- config_name: default",
        f"  data_files: [{{split: test, path: {ROWS}}}]",
        "dataset_info:",
        "  config_name: default",
        "  features:",
        *(f"  - name: {json.dumps(name)}\n    {kind}" for name, kind in features),
        "---",
        "",
    ]
    try:
        report = summarise(with_gold(evaluation))
    except InputError:
        report = Report(evaluation.title, evaluation.about)
    counts = ", ".join(f"{name} {count}" for name, count in methods.items())
    lines = (
        f"Rows, one a method and question: {counts}.",
        "Where there is no gold answer, or an answer was not scored, the score is null. Costs are "
        "in millionths of a dollar.",
    )
    return "\n".join(head) + markdown(replace(report, blocks=(*report.blocks, Text(lines))))
