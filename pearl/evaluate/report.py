"""An evaluation as a report: what it came to, how sure that is, and what it took.

What methods came to at a glance: accuracy beside calls, tokens, cost and time.

Each method against the first one, question by question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pearl.evaluate.results import Evaluation, Result
from pearl.evaluate.statistics import MCNEMAR, Paired, compare, holm, interval
from pearl.evaluate.tables import (
    MOST_USED,
    PlanStatistics,
    accuracy_chart,
    accuracy_rows,
    accuracy_tables,
    asked_in,
    evidence_table,
    label_blocks,
    money,
    name_of,
    plan_statistics,
    recorded_table,
    results_of,
    size_chart,
    spending_blocks,
    spending_rows,
    took,
)
from pearl.report.document import (
    NONE,
    Block,
    Chart,
    Field,
    Point,
    Report,
    Series,
    Table,
    Text,
    build,
    figure,
    number,
    pair,
    percent,
    points,
    probability,
    questions,
    signed_span,
    span,
    words,
)

_SPENT: Mapping[str, Field] = {
    "calls": figure("calls", "calls", lambda value: number(value, 2)),
    "tokens": figure("tokens", "tokens", number),
    "cost": figure("cost", "cost", money),
    "seconds": figure("seconds", "seconds", took),
}
"""What a question takes, by what it is called in `spending_rows`."""

_UNKNOWN: Mapping[str, tuple[float | None, ...]] = {
    "calls": (0,),
    "tokens": (0,),
    "cost": (None,),
    "seconds": (None,),
}
"""What stands there where nobody told: a reader that counts no tokens reports 0."""


def overall_tables(evaluation: Evaluation) -> list[Table]:
    """Accuracy in total, with what a question takes, and how it is in each split.

    Args:
        evaluation: the results.

    Returns:
        The first table has calls, tokens, cost and seconds where they are known.
        The other ways to count accuracy follow in a table of their own where they
        differ from the first; where nothing was spent they stand in it.
    """
    total, *by_split = accuracy_tables(evaluation)
    rows = [
        {**one, **{key: spent[key] for key in _SPENT}}
        for one, spent in zip(accuracy_rows(evaluation), spending_rows(evaluation), strict=True)
    ]
    known = [key for key in _SPENT if any(row[key] not in _UNKNOWN[key] for row in rows)]
    if "calls" not in known:
        return [total, *by_split]
    if "tokens" not in known:
        # Whoever counts no tokens costs nothing that could be told.
        known = [key for key in known if key != "cost"]
    asked = asked_in(evaluation)
    fields = [
        words("called", "method"),
        figure("right", "right", number),
        figure("answered", "answered", number),
        figure("of_asked", f"% of all {asked:,}", percent),
        pair(("of_asked_low", "of_asked_high"), "95 % interval", span),
        *(_SPENT[key] for key in known),
    ]
    first = build(total.title, fields, rows, _note(evaluation))
    if all(_is_whole(row) for row in rows):
        return [first, *by_split]
    title = f"Accuracy counted in three ways ({questions(asked)})"
    return [first, replace(total, title=title), *by_split]


def _is_whole(row: Mapping[str, Any]) -> bool:
    """Whether a method has one answer a question: all ways to count are one then."""
    return bool(row["rows"] == row["answered"] == row["asked"])


def _note(evaluation: Evaluation) -> str:
    note = (
        "A question without a result, or whose answer failed, is wrong. Intervals: bootstrap, "
        "10,000 resamples (Wilson's where all scores are equal). What a question takes is a mean "
        "over the method's results."
    )
    if any(one.score not in (0, 1) for one in evaluation.results):
        note += " Some scores are in parts: right counts the full ones, the share is a mean."
    return note


_HOW = {
    MCNEMAR: (
        "p: exact McNemar test, two-sided, on the questions that one of the two alone has right."
    ),
    "": "p: paired sign-flip permutation test, two-sided, with 10,000 sets of signs.",
}


def comparison_tables(evaluation: Evaluation) -> list[Table]:
    """Comparisons with the first method.

    On the questions both have, in total and in each split; and over all
    questions, where some have no result: those count as wrong.
    """
    if len(evaluation.methods) < 2:
        return []
    first = name_of(evaluation, evaluation.methods[0])
    rows = comparison_rows(evaluation)
    title = f"Compared with {first}, on the questions both have"
    tables = [_table(evaluation, title, rows, note=_note_comparison(rows))]
    asked = asked_in(evaluation)
    if any(len(results_of(evaluation, one)) < asked for one in evaluation.methods):
        title = f"Compared with {first}, over all {questions(asked)}, one without a result wrong"
        tables.append(_table(evaluation, title, comparison_rows(evaluation, fill=True)))
    for split in evaluation.asked if len(evaluation.asked) > 1 else ():
        title = f"Compared with {first} on {split or 'no split'}, on the questions both have"
        tables.append(_table(evaluation, title, comparison_rows(evaluation, split)))
    return tables


def comparison_rows(
    evaluation: Evaluation, split: str | None = None, *, fill: bool = False
) -> list[dict[str, Any]]:
    """Each method but the first compared with the first, as numbers.

    Args:
        evaluation: whose results.
        split: one of its splits; None for all.
        fill: whether a question without a result counts as a wrong one.
    """
    first, *others = evaluation.methods
    scores = {method: _scores(evaluation, method, split, fill=fill) for method in (first, *others)}
    found = [(method, compare(scores[first], scores[method])) for method in others]
    compared = [(method, paired) for method, paired in found if paired]
    corrected = holm([paired.p for _, paired in compared])
    return [
        _row(evaluation, method, paired, better)
        for (method, paired), better in zip(compared, corrected, strict=True)
    ]


def _scores(
    evaluation: Evaluation, method: str, split: str | None, *, fill: bool
) -> dict[Any, float]:
    scores: dict[Any, float] = {}
    if fill:
        known = {(one.split, one.id) for one in evaluation.results if split in (None, one.split)}
        scores = dict.fromkeys(sorted(known), 0.0)
        # Questions that no method has a result for are asked all the same.
        scores.update(((None, at), 0.0) for at in range(asked_in(evaluation, split) - len(known)))
    for one in results_of(evaluation, method, split):
        scores[one.split, one.id] = one.score
    return scores


def _row(evaluation: Evaluation, method: str, paired: Paired, corrected: float) -> dict[str, Any]:
    return {
        "method": method,
        "called": name_of(evaluation, method),
        "questions": paired.count,
        "both_right": paired.both,
        "only_first_right": paired.only_first,
        "only_this_right": paired.only_second,
        "neither_right": paired.neither,
        "difference": paired.difference.mean,
        "difference_low": paired.difference.low,
        "difference_high": paired.difference.high,
        "p": paired.p,
        "p_holm": corrected,
        "test": paired.test,
    }


def _table(
    evaluation: Evaluation, title: str, rows: Sequence[dict[str, Any]], note: str = ""
) -> Table:
    first = name_of(evaluation, evaluation.methods[0])
    fields: list[Field] = [
        words("called", "method"),
        figure("questions", "pairs", number),
        figure("both_right", "both right", number),
        figure("only_first_right", f"only {first}", number),
        figure("only_this_right", "only this one", number),
        figure("neither_right", "neither", number),
        figure("difference", "points", points),
        pair(("difference_low", "difference_high"), "95 % interval", signed_span),
        figure("p", "p", probability),
        figure("p_holm", "Holm p", probability),
    ]
    return build(title, fields, rows, note)


def _note_comparison(rows: Sequence[dict[str, Any]]) -> str:
    told = [_HOW.get(test, _HOW[""]) for test in dict.fromkeys(row["test"] for row in rows)]
    if len(rows) > 1:
        told.append("Holm p: corrected for the comparisons of its table.")
    told.append("Pairs: the questions compared.")
    told.append("Points: the difference in hundredths, with its bootstrap interval.")
    return " ".join(told)


def summarise(evaluation: Evaluation) -> Report:
    """Everything a reader is shown of an evaluation.

    Args:
        evaluation: the results, with how many questions were asked.

    Returns:
        Accuracy in total, with what a question takes, and by split, comparisons
        with the first method, and, where the results say enough: answers and
        their evidence, accuracy by kind of question and by size of the library,
        consistency across orders of the options, plans, and calls, tokens and
        cost.
    """
    total, *others = overall_tables(evaluation)
    blocks: list[Block | None] = [
        Text(evaluation.notes) if evaluation.notes else None,
        total,
        accuracy_chart(evaluation),
        *others,
        evidence_table(evaluation),
        *comparison_tables(evaluation),
        recorded_table(evaluation),
        size_chart(evaluation),
        *label_blocks(evaluation),
        order_table(evaluation),
        *plan_blocks(evaluation),
        *spending_blocks(evaluation),
    ]
    return Report(
        evaluation.title, evaluation.about, tuple(block for block in blocks if block is not None)
    )


def order_table(evaluation: Evaluation) -> Table | None:
    """How much the order of the options matters, of methods that tried several (PEARL, appendix).

    Returns:
        None where no method did.
    """
    rows = [
        _order_row(evaluation, method, tried)
        for method in evaluation.methods
        if (tried := [one for one in results_of(evaluation, method) if one.orders])
    ]
    if not rows:
        return None
    most = max(len(row["orders"]) for row in rows)
    fields = [words("called", "method"), figure("questions", "questions", number)]
    fields += [Field(f"order {at + 1}", lambda row, at=at: _order(row, at)) for at in range(most)]  # type: ignore[misc]
    fields += [
        figure("mean", "mean", percent),
        figure("vote", "majority vote", percent),
        pair(("vote_low", "vote_high"), "95 % interval", span),
        figure("same", "same under all", percent),
    ]
    note = (
        "Over the questions that were put under several orders. Majority vote: the option chosen "
        "most often, of several such the one chosen first. Same under all: the share of questions "
        "with one and the same choice under every order."
    )
    return build("Consistency across orders of the options", fields, rows, note)


def _order(row: Mapping[str, Any], at: int) -> str:
    return percent(row["orders"][at]) if at < len(row["orders"]) else NONE


def _order_row(evaluation: Evaluation, method: str, tried: list[Result]) -> dict[str, Any]:
    count = len(tried)
    most = max(len(one.orders) for one in tried)
    shares = [
        sum(len(one.orders) > at and one.orders[at] == one.gold for one in tried) / count
        for at in range(most)
    ]
    vote = interval([float(majority(one.orders) == one.gold) for one in tried])
    same = sum(len(set(one.orders)) == 1 and one.orders[0] is not None for one in tried)
    return {
        "method": method,
        "called": name_of(evaluation, method),
        "questions": count,
        "orders": shares,
        "mean": sum(shares) / most,
        "vote": vote.mean if vote else None,
        "vote_low": vote.low if vote else None,
        "vote_high": vote.high if vote else None,
        "same": same / count,
    }


def majority(orders: tuple[str | None, ...]) -> str | None:
    """The option chosen under most orders, of several such the one chosen first; None for none."""
    chosen = Counter(one for one in orders if one is not None)
    return max(chosen, key=lambda one: chosen[one]) if chosen else None


def plan_blocks(evaluation: Evaluation) -> list[Table | Chart]:
    """How long plans are, and which actions they call."""
    planned: dict[str, PlanStatistics] = {}
    rows = []
    for method in evaluation.methods:
        results = results_of(evaluation, method)
        found = plan_statistics(one.plan for one in results if one.plan)
        if found.plans:
            planned[method] = found
            fallback = sum(one.fallback for one in results) / len(results)
            rows.append(_plan_row(evaluation, method, found, fallback))
    if not planned:
        return []
    return [_plan_table(rows), _top_table(evaluation, planned), _top_chart(evaluation, planned)]


def _plan_row(
    evaluation: Evaluation, method: str, found: PlanStatistics, fallback: float
) -> dict[str, Any]:
    return {
        "method": method,
        "called": name_of(evaluation, method),
        "plans": found.plans,
        "unreadable": found.empty,
        "steps": found.steps,
        "distinct_actions": found.distinct,
        "fallback": fallback,
        "inventing": found.inventing,
        "invented": dict(found.invented),
        "actions": dict(found.actions),
    }


def _plan_table(rows: list[dict[str, Any]]) -> Table:
    fields = [
        words("called", "method"),
        figure("plans", "plans", number),
        *([figure("unreadable", "without steps", number)] if any(
            row["unreadable"] for row in rows) else []),
        figure("steps", "steps a plan", lambda value: number(value, 2)),
        figure("distinct_actions", "distinct actions", lambda value: number(value, 2)),
        figure("fallback", "no plan accepted", percent),
        figure("inventing", "plans that invent actions", number),
        figure("invented", "actions invented", lambda value: number(len(value))),
    ]  # fmt: skip
    note = "Means over the plans; no plan accepted: the share of the method's questions."
    return build("Plans", fields, rows, note)


def _top_table(evaluation: Evaluation, planned: Mapping[str, PlanStatistics]) -> Table:
    tops = {method: found.top for method, found in planned.items()}
    rows = [
        {
            "rank": at + 1,
            "methods": {
                method: {"action": top[at][0], "steps": top[at][1]}
                for method, top in tops.items()
                if at < len(top)
            },
        }
        for at in range(min(MOST_USED, max(map(len, tops.values()))))
    ]
    fields = [figure("rank", "rank", number)]
    fields += [
        Field(name_of(evaluation, method), lambda row, method=method: _used(row, method), "left")  # type: ignore[misc]
        for method in planned
    ]
    return build("Most used actions, with the steps that call them", fields, rows)


def _used(row: Mapping[str, Any], method: str) -> str:
    found = row["methods"].get(method)
    return f"{found['action']} {found['steps']:,}" if found else NONE


def _top_chart(evaluation: Evaluation, planned: Mapping[str, PlanStatistics]) -> Chart:
    """Of the method with most plans; of several such, the first."""
    method = max(planned, key=lambda one: planned[one].plans)
    points = tuple(Point(action, float(count)) for action, count in planned[method].top)
    return Chart(
        "bars", f"Most used actions of {name_of(evaluation, method)}", (Series("", points),),
        "steps that call them", digits=0,
    )  # fmt: skip
