"""Each method against the first one, question by question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pearl.evaluate.metrics.statistics import MCNEMAR, Paired, compare, holm
from pearl.evaluate.results import Evaluation
from pearl.evaluate.tables.accuracy import asked_in, name_of, results_of
from pearl.report import Table
from pearl.report.build import Field, build, figure, pair, words
from pearl.report.figures import number, points, probability, questions, signed_span

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
    tables = [_table(evaluation, title, rows, note=_note(rows))]
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


def _note(rows: Sequence[dict[str, Any]]) -> str:
    told = [_HOW.get(test, _HOW[""]) for test in dict.fromkeys(row["test"] for row in rows)]
    if len(rows) > 1:
        told.append("Holm p: corrected for the comparisons of its table.")
    told.append("Pairs: the questions compared.")
    told.append("Points: the difference in hundredths, with its bootstrap interval.")
    return " ".join(told)
