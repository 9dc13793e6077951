"""Tables and charts of accuracy: over rows, over answered questions, and over all questions.

They are in total, by split, by kind of question, by size of the library, and
under each order of the options.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from statistics import fmean, stdev
from typing import Any

from pearl.evaluate.results import PROMPT_SET, Evaluation
from pearl.evaluate.statistics import Interval, interval
from pearl.lang.text import counted
from pearl.report.document import (
    NONE,
    Align,
    Chart,
    Column,
    Kind,
    Point,
    Series,
    Table,
    build,
    counts,
    figure,
    pair,
    percent,
    span,
    words,
)

FEWEST = 5
"""The fewest questions for which a label has a row of its own."""

MOST_DRAWN = 5
"""The most methods in a chart with a bar for each method and label."""

Row = dict[str, Any]


def method_rows(evaluation: Evaluation, row_of: Callable[[str], Mapping[str, Any]]) -> list[Row]:
    """A row, beginning with the method's name, for each method for which ``row_of`` has any."""
    return [
        {"method": method, "called": evaluation.name_of(method), **row}
        for method in evaluation.methods
        if (row := row_of(method))
    ]


def method_table(
    title: str, columns: Sequence[Column], rows: Sequence[Row], note: str = ""
) -> Table | None:
    """A table of `method_rows`, with the name in its first column; None where there are none."""
    return build(title, [words("called", "method"), *columns], rows, note) if rows else None


def shares(name: str, share: Interval | None) -> Row:
    """A share and the ends of its interval, as keys of a row."""
    mean, low, high = (share.mean, share.low, share.high) if share else (None, None, None)
    return {name: mean, f"{name}_low": low, f"{name}_high": high}


def share_fields(name: str, title: str) -> tuple[Column, Column]:
    """The columns of `shares`."""
    return (
        figure(name, title, percent),
        pair((f"{name}_low", f"{name}_high"), "95 % interval", span),
    )


def accuracy_rows(evaluation: Evaluation, split: str | None = None) -> list[Row]:
    """Each method's accuracy on one split, or on all, counted in three ways, as numbers."""
    count = evaluation.count(split)

    def row(method: str) -> Row:
        results = evaluation.results_of(method, split)
        scores = [result.score for result in results]
        strays = [stray.score for stray in evaluation.results_of(method, split, strays=True)]
        answered = [result.score for result in results if result.answered]
        return {
            "right": [*scores, *strays].count(1),
            "rows": len(scores) + len(strays),
            "right_questions": scores.count(1),
            "answered": len(answered),
            "asked": count,
            **shares("of_rows", interval([*scores, *strays])),
            **shares("of_answered", interval(answered)),
            # A method without any results has no score.
            **shares("of_asked", interval(scores and [*scores, *[0.0] * (count - len(scores))])),
        }

    return method_rows(evaluation, row)


def accuracy_tables(evaluation: Evaluation) -> list[Table]:
    """Accuracy in total, and in each split where there are several."""
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
    if in_parts(evaluation):
        note += " Some scores are in parts: right counts the full ones, the shares are means."
    tables = []
    for split in (None, *(evaluation.asked if len(evaluation.asked) > 1 else ())):
        count = evaluation.count(split)
        where = "in total" if split is None else f"on {split or 'no split'}"
        fields = [
            words("called", "method"),
            *counts(right="right", rows="of rows"),
            *share_fields("of_rows", "% of rows"),
            *counts(answered="answered"),
            *share_fields("of_answered", "% of those"),
            *share_fields("of_asked", f"% of all {count:,}"),
        ]
        title = f"Accuracy {where} ({counted(count, 'question')})"
        rows = accuracy_rows(evaluation, split)
        tables.append(build(title, fields, rows, note if split is None else ""))
    return tables


def in_parts(evaluation: Evaluation) -> bool:
    """Whether any score is neither 0 nor 1."""
    return any(result.score not in (0, 1) for result in evaluation.results)


def recorded_table(evaluation: Evaluation) -> Table | None:
    """Counts of rows by kind; None where each question has one answer, and no method is renamed."""

    def row(method: str) -> Row:
        results = evaluation.results_of(method)
        strays = len(evaluation.results_of(method, strays=True))
        answered = sum(result.answered for result in results)
        failed = sum(bool(result.error) for result in results)
        return {
            "rows": len(results) + strays,
            "answered": answered,
            "failed": failed,
            "unnamed": len(results) - answered - failed,
            "strays": strays,
            "missing": evaluation.count() - len(results),
            "right_questions": sum(result.score == 1 for result in results),
        }

    rows = method_rows(evaluation, row)
    odd = ("missing", "failed", "unnamed", "strays")
    if not any(row[key] for row in rows for key in odd) and not evaluation.called:
        return None
    fields = [
        *([words("method", "recorded as")] if evaluation.called else []),
        *counts(rows="rows", answered="answered", unnamed="name no answer", failed="failed"),
        *(counts(strays="fragments") if evaluation.strays else []),
        *counts(missing="questions without a row"),
        *(counts(right_questions="questions right") if evaluation.strays else []),
    ]
    return method_table("What the rows are", fields, rows)


def accuracy_chart(evaluation: Evaluation) -> Chart:
    """A chart with a bar for each method: accuracy over all questions."""
    points = [accuracy_point(row["called"], row) for row in accuracy_rows(evaluation)]
    return percent_chart("bars", "Accuracy of each method", {"": points}, "% of all questions")


def accuracy_point(label: str, row: Row, x: float = 0.0) -> Point:
    """A row of `accuracy_rows` as a point in a chart: accuracy over all questions, in percent."""
    return _point(label, row["of_asked"], row["of_asked_low"], row["of_asked_high"], x)


def _point(label: str, mean: float | None, low: float, high: float, x: float = 0.0) -> Point:
    if mean is None:
        return Point(label, 0.0, x)
    return Point(label, 100 * mean, x, 100 * low, 100 * high)


def percent_chart(
    kind: Kind, title: str, lines: Mapping[str, Sequence[Point]], y_label: str, x_label: str = ""
) -> Chart:
    """A chart of percentages.

    Args:
        kind: the axis of bars is from 0 to 100; that of other kinds starts and ends at multiples of
            ten that include every interval.
        title: its title.
        lines: the points of each series, by its name.
        y_label: what the values are.
        x_label: what the horizontal axis shows.
    """
    bottom, top = 0.0, 100.0
    if kind != "bars":
        points = [point for line in lines.values() for point in line]
        lows = [point.y if point.low is None else point.low for point in points]
        highs = [point.y if point.high is None else point.high for point in points]
        bottom, top = 10.0 * (min(lows) // 10), min(100.0, 10.0 * (max(highs) // 10 + 1))
    series = tuple(Series(name, tuple(line)) for name, line in lines.items())
    return Chart(kind, title, series, y_label, x_label, bottom, top, " %")


def size_chart(evaluation: Evaluation) -> Chart | None:
    """Accuracy by library size, for methods such as ``pearl@20``; None for less than two sizes."""
    lines: dict[str, list[Point]] = {}
    for row in accuracy_rows(evaluation):
        name, size = _size(row["method"])
        if size:
            lines.setdefault(name, []).append(accuracy_point("", row, float(size)))
    lines = {name: line for name, line in lines.items() if line[1:]}
    if not lines:
        return None
    title, x_label = "Accuracy by size of the action library", "actions in the library"
    return percent_chart("line", title, lines, "% of all questions", x_label)


def _size(method: str) -> tuple[str, int]:
    """A method's name without its library size, and that size, 0 for none; a model or a set of
    demonstrations after it stays in the name."""
    name, _, rest = method.rpartition("@")
    size, *of = rest.split(", ", 1)
    sized = name and size.isascii() and size.isdigit()
    return (", ".join((name, *of)), int(size)) if sized else (method, 0)


_SCORES = re.compile(
    r"exact_match|f1|contains|(?:sp|triples|joint)_\w+|recall(?:_at_\d+)?|none_fits|guessed"
)
"""Names of measures that count as 0 for a question without them."""


def means_of(evaluation: Evaluation, method: str) -> dict[str, float]:
    """The means of a method's measures.

    Scores are averaged over all questions, with 0 where they are missing; other measures, as hops,
    over the questions that have them. Calls of agents are summed instead.
    """
    values: dict[str, list[float]] = {}
    for result in evaluation.results_of(method):
        for name, value in result.measures.items():
            values.setdefault(name, []).append(value)
    count = evaluation.count()
    counts = {
        name: count if _SCORES.fullmatch(name) else len(known) for name, known in values.items()
    }
    counts["agent_calls"] = 1
    return {name: sum(known) / counts[name] for name, known in values.items()}


def spread_table(evaluation: Evaluation) -> Table | None:
    """Each method's mean over several sets of demonstrations, with its spread; None for one set.

    DecomP's tables average over three sets of prompts (Khot et al., ICLR 2023, section 4).
    """
    if f"{PROMPT_SET}s" not in dict(evaluation.about):
        return None

    def measured(method: str) -> Mapping[str, float]:
        scores = [result.score for result in evaluation.results_of(method)]
        accuracy = {"accuracy": sum(scores) / evaluation.count()} if scores else {}
        return {**accuracy, **means_of(evaluation, method)}

    rows = []
    for group in evaluation.groups:
        for measure in ("accuracy", "exact_match", "f1"):
            means = [row[measure] for row in map(measured, group) if measure in row]
            if len(means) == len(group):
                name = group[0].partition(", ")[0]
                spread = stdev(means) if len(means) > 1 else None
                figures = {"mean": fmean(means), "spread": spread, "sets": len(means)}
                ends = {"lowest": min(means), "highest": max(means)}
                rows.append({"method": name, "measure": measure, **figures, **ends})
    fields = [
        words("method", "method"),
        words("measure", "measure"),
        *counts(sets="sets"),
        *(figure(key, key, percent) for key in ("mean", "spread", "lowest", "highest")),
    ]
    note = "Over all questions, one without a result as 0. Spread: the standard deviation of sets."
    return build("Means over sets of demonstrations", fields, rows, note)


def label_blocks(evaluation: Evaluation) -> Iterator[Table | Chart]:
    """Accuracy by each kind of question, and a chart of it by required context."""

    def accuracy(share: Row) -> str:
        return f"{percent(share['mean'])} ({span(share['low'], share['high'])})"

    # A chart with a method's library sizes, or with many methods, could not be read.
    unsized = [method for method in evaluation.methods if not _size(method)[1]]
    drawn = (unsized or evaluation.methods)[:MOST_DRAWN]
    of_some = "" if len(drawn) == len(evaluation.methods) else f", of {len(drawn)} methods"
    for kind in dict.fromkeys(kind for result in evaluation.results for kind in result.labels):
        rows = label_rows(evaluation, kind)
        fields = [words("label", kind), *counts(questions="questions")]
        fields += method_fields(evaluation, evaluation.methods, accuracy, "right")
        note = "Over all questions that have the label, with 95 % intervals."
        if any(len(result.labels.get(kind, ())) > 1 for result in evaluation.results):
            note += " A question with several labels counts under each."
        yield build(f"Accuracy by {kind}", fields, rows, note)
        if kind == "context":
            lines = {
                evaluation.name_of(method): [
                    _point(row["label"], share["mean"], share["low"], share["high"])
                    for row in rows
                    for share in (row["methods"][method],)
                ]
                for method in drawn
            }
            title = f"Accuracy by {kind}{of_some}"
            yield percent_chart("bars", title, lines, "% of the questions with the label")


def method_fields(
    evaluation: Evaluation, methods: Iterable[str], show: Callable[[Row], str], align: Align
) -> list[Column]:
    """A column for each method; its cells are made from the row's ``methods`` entry."""

    def cell(method: str, row: Mapping[str, Any]) -> str:
        value = row["methods"].get(method)
        return show(value) if value else NONE

    return [Column(evaluation.name_of(method), align, partial(cell, method)) for method in methods]


def label_rows(evaluation: Evaluation, kind: str) -> list[Row]:
    """Each method's accuracy on the questions with each label of a kind, as numbers.

    A question with several labels counts under each. A label that fewer than
    five questions have is counted under ``other``.
    """
    labels: dict[tuple[str, str], tuple[str, ...]] = {}
    for result in evaluation.results:
        if result.labels.get(kind):
            labels.setdefault((result.split, result.id), result.labels[kind])
    sizes = Counter(label for names in labels.values() for label in dict.fromkeys(names))
    few = {label for label in sizes if sizes[label] < FEWEST}
    large = sorted((label for label in sizes if label not in few), key=lambda label: -sizes[label])
    groups = [(label, {label}) for label in large]
    if few:
        groups.append((f"other ({len(few)} with fewer than {FEWEST} each)", few))
    scores = {
        method: {(item.split, item.id): item.score for item in evaluation.results_of(method)}
        for method in evaluation.methods
    }
    rows = []
    for title, group in groups:
        keys = [key for key, names in labels.items() if group.intersection(names)]
        intervals = {
            method: interval([by_question.get(key, 0.0) for key in keys])
            for method, by_question in scores.items()
        }
        cells = {method: asdict(own) for method, own in intervals.items() if own}
        rows.append({"label": title, "questions": len(keys), "methods": cells})
    return rows


def order_table(evaluation: Evaluation) -> Table | None:
    """Consistency across orders of the options (PEARL, appendix); None where no method tried
    several."""

    def row(method: str) -> Row:
        results = [result for result in evaluation.results_of(method) if result.orders]
        if not results:
            return {}
        right = [[order == result.gold for order in result.orders] for result in results]
        # A question with fewer options has fewer orders.
        accuracies = [
            fmean(own[at] for own in right if at < len(own)) for at in range(max(map(len, right)))
        ]
        same = sum({*result.orders} == {result.orders[0]} != {None} for result in results)
        votes = interval([float(majority(result.orders) == result.gold) for result in results])
        return {
            "questions": len(results),
            "orders": accuracies,
            "mean": fmean(map(fmean, right)),
            **shares("vote", votes),
            "same": same / len(results),
            "right": fmean(map(all, right)),
        }

    def share_of(at: int, accuracies: Sequence[float]) -> str:
        return percent(accuracies[at]) if at < len(accuracies) else NONE

    rows = method_rows(evaluation, row)
    most = max((len(row["orders"]) for row in rows), default=0)
    fields = [
        *counts(questions="questions"),
        *(figure("orders", f"order {at + 1}", partial(share_of, at)) for at in range(most)),
        figure("mean", "mean", percent),
        *share_fields("vote", "majority vote"),
        figure("same", "same under all", percent),
        figure("right", "right under all", percent),
    ]
    note = (
        "Over the questions that were put under several orders; an order's share is of those that "
        "have it, and the mean is over questions. Majority vote: the option chosen "
        "most often, of several such the one chosen first. Same under all: the share of questions "
        "with one and the same choice under every order; right under all: with the right one."
    )
    return method_table("Consistency across orders of the options", fields, rows, note)


def majority(orders: tuple[str | None, ...]) -> str | None:
    """The option chosen under most orders; of a tie, the one chosen first; None for none."""
    chosen = Counter(option for option in orders if option is not None)
    return max(chosen, key=lambda option: chosen[option]) if chosen else None
