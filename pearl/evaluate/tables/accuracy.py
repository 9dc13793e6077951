"""How many answers are right: of the rows, of those that answered, of all questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from pearl.evaluate.metrics.statistics import Interval, interval
from pearl.evaluate.results import Evaluation, Result
from pearl.report import Chart, Point, Series, Table
from pearl.report.build import Field, build, figure, pair, words
from pearl.report.figures import number, percent, questions, span

FEWEST = 5
"""Questions below which a kind of question is no group of its own."""

MOST_DRAWN = 5
"""Methods that a chart with a bar for each of them and each label shows."""


def name_of(evaluation: Evaluation, method: str) -> str:
    """A method's name for a reader."""
    return evaluation.called.get(method, method)


def results_of(evaluation: Evaluation, method: str, split: str | None = None) -> list[Result]:
    """A method's results, of one split or of all."""
    return [
        one
        for one in evaluation.results
        if one.method == method and (split is None or one.split == split)
    ]


def asked_in(evaluation: Evaluation, split: str | None = None) -> int:
    """How many questions a split has, or all splits together."""
    return sum(evaluation.asked.values()) if split is None else evaluation.asked[split]


def accuracy_rows(evaluation: Evaluation, split: str | None = None) -> list[dict[str, Any]]:
    """Each method's accuracy, counted in three ways, as numbers.

    Args:
        evaluation: whose results.
        split: one of its splits; None for all.
    """
    asked = asked_in(evaluation, split)
    return [
        {
            "method": method,
            "called": name_of(evaluation, method),
            **_counted(evaluation, method, split, asked),
        }
        for method in evaluation.methods
    ]


def _counted(evaluation: Evaluation, method: str, split: str | None, asked: int) -> dict[str, Any]:
    results = results_of(evaluation, method, split)
    strays = [
        one.score
        for one in evaluation.strays
        if one.method == method and (split is None or one.split == split)
    ]
    scores = [one.score for one in results]
    answered = [one.score for one in results if one.answer is not None]
    return {
        "right": _full([*scores, *strays]),
        "rows": len(scores) + len(strays),
        "right_questions": _full(scores),
        "answered": len(answered),
        "asked": asked,
        **_shares("of_rows", interval([*scores, *strays])),
        **_shares("of_answered", interval(answered)),
        **_shares("of_asked", interval([*scores, *[0.0] * (asked - len(scores))])),
    }


def _full(scores: Iterable[float]) -> int:
    return sum(score == 1 for score in scores)


def _shares(name: str, found: Interval | None) -> dict[str, float | None]:
    mean, low, high = (found.mean, found.low, found.high) if found else (None, None, None)
    return {name: mean, f"{name}_low": low, f"{name}_high": high}


def accuracy_tables(evaluation: Evaluation) -> list[Table]:
    """Accuracy in total, and in each split where there are several."""
    splits = list(evaluation.asked) if len(evaluation.asked) > 1 else []
    asked = asked_in(evaluation)
    tables = [_accuracy_table(evaluation, f"Accuracy in total ({questions(asked)})", None)]
    for split in splits:
        title = f"Accuracy on {split or 'no split'} ({questions(evaluation.asked[split])})"
        tables.append(_accuracy_table(evaluation, title, split))
    return tables


def _accuracy_table(evaluation: Evaluation, title: str, split: str | None) -> Table:
    asked = asked_in(evaluation, split)
    fields = [
        words("called", "method"),
        figure("right", "right", number),
        figure("rows", "of rows", number),
        figure("of_rows", "% of rows", percent),
        pair(("of_rows_low", "of_rows_high"), "95 % interval", span),
        figure("answered", "answered", number),
        figure("of_answered", "% of those", percent),
        pair(("of_answered_low", "of_answered_high"), "95 % interval", span),
        figure("of_asked", f"% of all {asked:,}", percent),
        pair(("of_asked_low", "of_asked_high"), "95 % interval", span),
    ]
    return build(title, fields, accuracy_rows(evaluation, split), _note(evaluation, split))


def _note(evaluation: Evaluation, split: str | None) -> str:
    if split is not None:
        return ""
    note = (
        "Rows are the results there are; answered are those that name an option, or give an "
        "answer where there are no options; of all questions, one without a result is wrong. "
        "Intervals: bootstrap, 10,000 resamples (Wilson's where all scores are equal)."
    )
    if evaluation.strays:
        note += (
            " A fragment is a row and no question: right counts it as whoever recorded it did, "
            "the other two shares leave it out."
        )
    if any(one.score not in (0, 1) for one in evaluation.results):
        note += " Some scores are in parts: right counts the full ones, the shares are means."
    return note


def recorded_table(evaluation: Evaluation) -> Table | None:
    """What each method's rows are; None where every method has one answer a question."""
    rows = [_recorded(evaluation, method) for method in evaluation.methods]
    odd = ("missing", "failed", "unnamed", "strays")
    if not any(row[key] for row in rows for key in odd) and not evaluation.called:
        return None
    fields = [words("called", "method")]
    if evaluation.called:
        fields.append(words("method", "recorded as"))
    fields += [
        figure("rows", "rows", number),
        figure("answered", "answered", number),
        figure("unnamed", "name no option", number),
        figure("failed", "failed", number),
        *([figure("strays", "fragments", number)] if evaluation.strays else []),
        figure("missing", "questions without a row", number),
        *([figure("right_questions", "questions right", number)] if evaluation.strays else []),
    ]
    return build("What the rows are", fields, rows)


def _recorded(evaluation: Evaluation, method: str) -> dict[str, Any]:
    results = results_of(evaluation, method)
    strays = sum(one.method == method for one in evaluation.strays)
    answered = sum(one.answer is not None for one in results)
    failed = sum(one.answer is None and bool(one.error) for one in results)
    return {
        "method": method,
        "called": name_of(evaluation, method),
        "rows": len(results) + strays,
        "answered": answered,
        "failed": failed,
        "unnamed": len(results) - answered - failed,
        "strays": strays,
        "missing": asked_in(evaluation) - len(results),
        "right_questions": _full(one.score for one in results),
    }


def accuracy_chart(evaluation: Evaluation) -> Chart:
    """A bar a method: accuracy over all questions."""
    points = [_point(row["called"], row) for row in accuracy_rows(evaluation)]
    return Chart(
        "bars", "Accuracy of each method", (Series("", tuple(points)),), "% of all questions",
        top=100.0, unit=" %",
    )  # fmt: skip


def _point(label: str, row: Mapping[str, Any], x: float = 0.0) -> Point:
    low, high = row["of_asked_low"], row["of_asked_high"]
    return Point(
        label,
        100 * (row["of_asked"] or 0.0),
        x,
        None if low is None else 100 * low,
        None if high is None else 100 * high,
    )


def size_chart(evaluation: Evaluation) -> Chart | None:
    """Accuracy over the library's size, of methods named as ``pearl@20``; None below two sizes."""
    lines: dict[str, list[Point]] = {}
    for row in accuracy_rows(evaluation):
        name, size = _size(row["method"])
        if size:
            lines.setdefault(name, []).append(_point("", row, float(size)))
    series = [Series(name, tuple(points)) for name, points in lines.items() if len(points) > 1]
    if not series:
        return None
    bottom, top = around(series)
    return Chart(
        "line", "Accuracy by size of the action library", tuple(series), "% of all questions",
        "actions in the library", bottom=bottom, top=top, unit=" %",
    )  # fmt: skip


def around(series: Iterable[Series]) -> tuple[float, float]:
    """Where an axis of hundredths starts and ends, in tens, so that every interval is on it."""
    points = [point for one in series for point in one.points]
    lows = [point.y if point.low is None else point.low for point in points]
    highs = [point.y if point.high is None else point.high for point in points]
    return 10.0 * (min(lows) // 10), min(100.0, 10.0 * (max(highs) // 10 + 1))


def _size(method: str) -> tuple[str, int]:
    """A method's name without its library's size, and that size; 0 where it names none."""
    name, _, size = method.rpartition("@")
    return (name, int(size)) if name and size.isascii() and size.isdigit() else (method, 0)


def label_blocks(evaluation: Evaluation) -> list[Table | Chart]:
    """Accuracy by each kind of question, and a chart of it by required context."""
    kinds = dict.fromkeys(kind for one in evaluation.results for kind in one.labels)
    blocks: list[Table | Chart] = []
    for kind in kinds:
        rows = label_rows(evaluation, kind)
        blocks.append(_label_table(evaluation, kind, rows))
        if kind == "context":
            blocks.append(_label_chart(evaluation, kind, rows))
    return blocks


def label_rows(evaluation: Evaluation, kind: str) -> list[dict[str, Any]]:
    """Each method's accuracy on the questions with each label of a kind, as numbers.

    A question with several labels counts under each. A label that fewer than
    five questions have is counted under ``other``.
    """
    labels: dict[tuple[str, str], tuple[str, ...]] = {}
    for one in evaluation.results:
        if one.labels.get(kind):
            labels.setdefault((one.split, one.id), one.labels[kind])
    sizes = Counter(label for found in labels.values() for label in dict.fromkeys(found))
    large = sorted((one for one in sizes if sizes[one] >= FEWEST), key=lambda one: -sizes[one])
    few = [one for one in sizes if sizes[one] < FEWEST]
    scores = {
        method: {(one.split, one.id): one.score for one in results_of(evaluation, method)}
        for method in evaluation.methods
    }
    groups = [(label, [key for key, found in labels.items() if label in found]) for label in large]
    if few:
        rest = [key for key, found in labels.items() if set(few) & set(found)]
        groups.append((f"other ({len(few)} with fewer than {FEWEST} each)", rest))
    return [
        {
            "label": label,
            "questions": len(keys),
            "methods": {
                method: asdict(found)
                for method, known in scores.items()
                if (found := interval([known.get(key, 0.0) for key in keys]))
            },
        }
        for label, keys in groups
    ]


def _label_table(evaluation: Evaluation, kind: str, rows: Iterable[dict[str, Any]]) -> Table:
    fields = [words("label", kind), figure("questions", "questions", number)]
    fields += [
        Field(name_of(evaluation, method), lambda row, method=method: _cell(row, method))  # type: ignore[misc]
        for method in evaluation.methods
    ]
    note = "Over all questions that have the label, with 95 % intervals."
    labelled = [one.labels[kind] for one in evaluation.results if one.labels.get(kind)]
    if any(len(found) > 1 for found in labelled):
        note += " A question with several labels counts under each."
    return build(f"Accuracy by {kind}", fields, rows, note)


def _cell(row: Mapping[str, Any], method: str) -> str:
    found = row["methods"][method]
    return f"{percent(found['mean'])} ({span(found['low'], found['high'])})"


def _label_chart(evaluation: Evaluation, kind: str, rows: Iterable[dict[str, Any]]) -> Chart:
    rows = list(rows)
    # Bars of a method at several sizes, or of many methods, could not be told apart.
    shown = [method for method in evaluation.methods if not _size(method)[1]] or evaluation.methods
    series = [
        Series(
            name_of(evaluation, method),
            tuple(_labelled(row["label"], row["methods"][method]) for row in rows),
        )
        for method in shown[:MOST_DRAWN]
    ]
    of_some = "" if len(series) == len(evaluation.methods) else f", of {len(series)} methods"
    return Chart(
        "bars", f"Accuracy by {kind}{of_some}", tuple(series),
        "% of the questions with the label", top=100.0, unit=" %",
    )  # fmt: skip


def _labelled(label: str, found: Mapping[str, Any]) -> Point:
    return Point(label, 100 * found["mean"], 0.0, 100 * found["low"], 100 * found["high"])
