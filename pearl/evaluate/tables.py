"""What answers take: calls, tokens, money, and as multiples of the first method's.

The figures of short answers and their evidence, method by method.

What plans look like: how long they are, and which actions they call.

How many answers are right: of the rows, of those that answered, of all questions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pearl.evaluate.results import Evaluation, Result
from pearl.evaluate.statistics import Interval, interval
from pearl.lang.parser import parse
from pearl.models.base import Usage
from pearl.report.document import (
    NONE,
    Chart,
    Field,
    Point,
    Series,
    Table,
    Text,
    build,
    figure,
    number,
    pair,
    percent,
    questions,
    span,
    times,
    words,
)

MOST_USED = 10


@dataclass(frozen=True, slots=True)
class PlanStatistics:
    """Plans in figures.

    Args:
        plans: how many have at least one step.
        empty: how many texts have none.
        steps: a plan, on average.
        distinct: different actions a plan, on average.
        actions: how many steps call each action, the most used first; equally
            used ones by name.
        invented: how many plans declare each action that the library lacks.
        inventing: how many plans declare one.
    """

    plans: int
    empty: int
    steps: float
    distinct: float
    actions: Mapping[str, int]
    invented: Mapping[str, int]
    inventing: int

    @property
    def top(self) -> tuple[tuple[str, int], ...]:
        """The ten most used actions, with how many steps call them."""
        return tuple(self.actions.items())[:MOST_USED]


def plan_statistics(texts: Iterable[str]) -> PlanStatistics:
    """Count steps and actions.

    Args:
        texts: plans, as models or Pearl wrote them.
    """
    plans = empty = steps = distinct = inventing = 0
    used, invented = Counter[str](), Counter[str]()
    for text in texts:
        plan = parse(text).plan
        if not plan.steps:
            empty += 1
            continue
        called = Counter(step.action for step in plan.steps)
        plans += 1
        steps += called.total()
        distinct += len(called)
        used += called
        declared = {action.name for action in plan.declares}
        invented.update(declared)
        inventing += bool(declared)
    return PlanStatistics(
        plans=plans,
        empty=empty,
        steps=steps / plans if plans else 0.0,
        distinct=distinct / plans if plans else 0.0,
        actions=_by_count(used),
        invented=_by_count(invented),
        inventing=inventing,
    )


def _by_count(found: Counter[str]) -> dict[str, int]:
    return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))


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


NO_TOKENS = (
    "No tokens were reported, as the reader that Pearl carries counts none: what answers take is "
    "given in calls alone."
)


def spending_blocks(evaluation: Evaluation) -> list[Text | Table | Chart]:
    """Calls, tokens and cost a question, and a chart of them against accuracy.

    Returns:
        Nothing where no call is recorded.
    """
    rows = spending_rows(evaluation)
    if not any(row["calls"] for row in rows):
        return []
    tokens = any(row["tokens_read"] or row["tokens_written"] for row in rows)
    blocks: list[Text | Table | Chart] = [_table(evaluation, rows, tokens=tokens)]
    if not tokens:
        blocks.append(Text((NO_TOKENS,)))
    blocks.append(_chart(evaluation, rows, tokens=tokens))
    return blocks


def spending_rows(evaluation: Evaluation) -> list[dict[str, Any]]:
    """What each method takes a question, as numbers; cost in dollars, None where it is not known.

    A question is one that the method has a result for.
    """
    rows = [_spent(evaluation, method) for method in evaluation.methods]
    first = rows[0]
    for row in rows:
        for key in ("calls", "tokens", "cost"):
            base, own = first[key], row[key]
            row[f"{key}_multiple"] = own / base if base and own is not None else None
    return rows


def _spent(evaluation: Evaluation, method: str) -> dict[str, Any]:
    results = results_of(evaluation, method)
    count = len(results) or 1
    usage = sum((one.usage for one in results), Usage())
    cost = _cost(results)
    return {
        "method": method,
        "called": name_of(evaluation, method),
        "questions": len(results),
        "calls": sum(one.calls for one in results) / count,
        "tokens_read": usage.prompt_tokens / count,
        "tokens_cached": usage.cached_tokens / count,
        "tokens_written": usage.completion_tokens / count,
        "tokens": (usage.prompt_tokens + usage.completion_tokens) / count,
        "cost": None if cost is None else cost / count,
        "seconds": _seconds(results),
    }


def _cost(results: list[Result]) -> float | None:
    """In dollars; None where one result's is not known."""
    costs = [one.cost for one in results]
    known = [one for one in costs if one is not None]
    return sum(known) / 1e6 if known and len(known) == len(costs) else None


def _seconds(results: list[Result]) -> float | None:
    """From a question's beginning to its answer or failure; None where nobody measured."""
    known = [one.measures["seconds"] for one in results if "seconds" in one.measures]
    return sum(known) / len(known) if known else None


def _table(evaluation: Evaluation, rows: list[dict[str, Any]], *, tokens: bool) -> Table:
    fields: list[Field] = [
        words("called", "method"),
        figure("calls", "calls", lambda value: number(value, 2)),
        figure("calls_multiple", "×", times),
    ]
    note = f"Means a question; multiples of {name_of(evaluation, evaluation.methods[0])}."
    if tokens:
        fields += [
            figure("tokens_read", "tokens read", number),
            figure("tokens_cached", "of them cached", number),
            figure("tokens_written", "tokens written", number),
            figure("tokens_multiple", "× tokens", times),
        ]
        if any(row["cost"] is not None for row in rows):
            fields += [figure("cost", "cost", money), figure("cost_multiple", "× cost", times)]
        else:
            note += " No price is known, so there is no cost."
    if any(row["seconds"] is not None for row in rows):
        fields.append(figure("seconds", "seconds", took))
        note += (
            " Seconds: from a question's beginning to its answer, or failure, with others under "
            "way beside it; kept replies take none."
        )
    return build("Calls, tokens and cost a question", fields, rows, note)


def took(seconds: float | None) -> str:
    """``3.4 s``."""
    return NONE if seconds is None else f"{number(seconds, 1)} s"


def money(dollars: float | None) -> str:
    """``$0.0123``, and ``$1.20`` from a dollar on."""
    if dollars is None:
        return NONE
    return f"${dollars:,.2f}" if dollars >= 1 or dollars == 0 else f"${dollars:.4f}"


def _chart(evaluation: Evaluation, rows: list[dict[str, Any]], *, tokens: bool) -> Chart:
    priced = tokens and all(row["cost"] is not None for row in rows)
    key, label, title = "calls", "calls a question", "Calls against accuracy"
    if priced and any(row["cost"] for row in rows):
        key, label, title = "cost", "dollars a question", "Cost against accuracy"
    elif tokens:
        key, label, title = "tokens", "tokens a question", "Tokens against accuracy"
    points = [
        Point(
            row["called"],
            100 * (one["of_asked"] or 0.0),
            row[key],
            None if one["of_asked_low"] is None else 100 * one["of_asked_low"],
            None if one["of_asked_high"] is None else 100 * one["of_asked_high"],
        )
        for row, one in zip(rows, accuracy_rows(evaluation), strict=True)
    ]
    series = (Series("", tuple(points)),)
    bottom, top = around(series)
    return Chart(
        "scatter", title, series, "% of all questions", label, bottom=bottom, top=top, unit=" %"
    )


_TITLES = {
    "exact_match": "exact match",
    "f1": "F1",
    "sp_em": "facts EM",
    "sp_f1": "facts F1",
    "triples_em": "triples EM",
    "triples_f1": "triples F1",
    "joint_em": "joint EM",
    "joint_f1": "joint F1",
    "recall_at_2": "recall@2",
    "recall_at_5": "recall@5",
    "format": "format",
}

_EVIDENCE = r"(?:sp|triples|joint)_\w+"
_MEASURED = re.compile(
    rf".* (?:exact_match|f1)|(?:normal-evidence|cot-evidence) {_EVIDENCE}"
    rf"|fsm1 recall_at_\d|fsm2 (?:{_EVIDENCE}|recall_at_\d)"
)
"""Methods and their measures: one that answered nothing has 0 of these, and of others none."""


def evidence_table(evaluation: Evaluation) -> Table | None:
    """Exact match and F1 of answers, supporting facts, triples and all of them, and the form.

    Args:
        evaluation: the results.

    Returns:
        None where no reply was demanded in a form.
    """
    if not any("format" in one.measures for one in evaluation.results):
        return None
    elsewhere = frozenset(name for one in evaluation.results for name in one.measures)
    if all(one.answer is None for one in evaluation.results):
        elsewhere |= {"exact_match", "f1"}
    rows = [_row(evaluation, method, elsewhere) for method in evaluation.methods]
    shown = [name for name in _TITLES if any(row[name] is not None for row in rows)]
    fields = [words("called", "method"), *(figure(one, _TITLES[one], percent) for one in shown)]
    note = (
        "Means over all questions; one without a result counts as 0. Facts: the sentences, or "
        "paragraphs, that support the answer. Joint: all of it together. Recall: the share of the "
        "supporting paragraphs among the first that searches named. Format: the share of demands "
        "whose first reply had the demanded form."
    )
    return build("Answers and their evidence", fields, rows, note)


def _row(evaluation: Evaluation, method: str, elsewhere: frozenset[str]) -> dict[str, Any]:
    results, total = results_of(evaluation, method), sum(evaluation.asked.values())
    row: dict[str, Any] = {"method": method, "called": name_of(evaluation, method)}
    for name in _TITLES:
        known = [one.measures[name] for one in results if name in one.measures]
        counts = known or (name in elsewhere and _MEASURED.fullmatch(f"{method} {name}"))
        row[name] = sum(known) / total if counts else None
    return row
