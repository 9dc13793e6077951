"""What answers take: calls, tokens, money, and as multiples of the first method's."""

from __future__ import annotations

from typing import Any

from pearl.evaluate.results import Evaluation, Result
from pearl.evaluate.tables.accuracy import accuracy_rows, around, name_of, results_of
from pearl.llm import Usage
from pearl.report import Chart, Point, Series, Table, Text
from pearl.report.build import Field, build, figure, words
from pearl.report.figures import NONE, number, times

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
