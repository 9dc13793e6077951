"""The figures of short answers and their evidence, method by method."""

from __future__ import annotations

from typing import Any

from pearl.evaluate.accuracy import name_of, results_of
from pearl.evaluate.results import Evaluation
from pearl.report import Table
from pearl.report.build import build, figure, words
from pearl.report.figures import percent

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


def evidence_table(evaluation: Evaluation) -> Table | None:
    """Exact match and F1 of answers, supporting facts, triples and all of them, and the form.

    Args:
        evaluation: the results.

    Returns:
        None where no reply was demanded in a form.
    """
    if not any("format" in one.measures for one in evaluation.results):
        return None
    rows = [_row(evaluation, method) for method in evaluation.methods]
    shown = [name for name in _TITLES if any(row[name] is not None for row in rows)]
    fields = [words("called", "method"), *(figure(one, _TITLES[one], percent) for one in shown)]
    note = (
        "Means over all questions; one without a result counts as 0. Facts: the sentences, or "
        "paragraphs, that support the answer. Joint: all of it together. Recall: the share of the "
        "supporting paragraphs among the first that searches named. Format: the share of demands "
        "whose first reply had the demanded form."
    )
    return build("Answers and their evidence", fields, rows, note)


def _row(evaluation: Evaluation, method: str) -> dict[str, Any]:
    results, total = results_of(evaluation, method), sum(evaluation.asked.values())
    row: dict[str, Any] = {"method": method, "called": name_of(evaluation, method)}
    for name in _TITLES:
        known = [one.measures[name] for one in results if name in one.measures]
        row[name] = sum(known) / total if known else None
    return row
