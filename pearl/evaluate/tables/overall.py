"""What methods came to at a glance: accuracy beside calls, tokens, cost and time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pearl.evaluate.results import Evaluation
from pearl.evaluate.tables.accuracy import accuracy_rows, accuracy_tables, asked_in
from pearl.evaluate.tables.spending import money, spending_rows, took
from pearl.report import Table
from pearl.report.build import Field, build, figure, pair, words
from pearl.report.figures import number, percent, questions, span

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
