"""The figures of short answers and their evidence, method by method."""

from __future__ import annotations

import re
from typing import Any

from pearl.evaluate.results import Evaluation
from pearl.evaluate.tables.accuracy import name_of, results_of
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
