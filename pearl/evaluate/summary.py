"""An evaluation as a report: what it came to, how sure that is, and what it took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pearl.evaluate.metrics.statistics import interval
from pearl.evaluate.results import Evaluation, Result
from pearl.evaluate.tables.accuracy import (
    accuracy_chart,
    label_blocks,
    name_of,
    recorded_table,
    results_of,
    size_chart,
)
from pearl.evaluate.tables.comparison import comparison_tables
from pearl.evaluate.tables.evidence import evidence_table
from pearl.evaluate.tables.overall import overall_tables
from pearl.evaluate.tables.plans import MOST_USED, PlanStatistics, plan_statistics
from pearl.evaluate.tables.spending import spending_blocks
from pearl.report import Block, Chart, Point, Report, Series, Table, Text
from pearl.report.build import Field, build, figure, pair, words
from pearl.report.figures import NONE, number, percent, span


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
