"""Answers that people grade beside the model that graded them by a rubric, and how far they agree.

A model's grades are worth what its agreement with people is, and no more than people's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pearl.evaluate.errors import evenly
from pearl.evaluate.results import Evaluation
from pearl.jobs.scoring import GRADES, option_words
from pearl.lang.source import InputError, read_rows
from pearl.report.document import Table
from pearl.review.agreement import MODEL, Agreement, agreement, pairs_table


@dataclass(frozen=True, slots=True)
class Graders:
    """How far a model and people agree on grades.

    Args:
        names: by number; `MODEL` is the model, and people follow as they come in their file.
        agreement: of all, with each pair.
    """

    names: dict[int, str]
    agreement: Agreement

    @property
    def table(self) -> Table:
        """Each pair, as a table of a report."""
        title = "The grades of the model and of people"
        return pairs_table(title, "answers", self.agreement, self.names)


def draw_answers(evaluation: Evaluation, count: int) -> list[dict[str, Any]]:
    """Answers for a person to grade, who does not see how the model graded them.

    Args:
        evaluation: whose answers.
        count: how many at most, drawn as evenly over splits as they go.

    Returns:
        Rows with an empty ``grade``.

    Raises:
        InputError: it has no answer that a model graded.
    """
    answered = [row for row in evaluation.results if row.answer is not None and not row.error]
    _check(evaluation)
    return [
        {
            "method": row.method,
            "id": row.id,
            "question": row.question,
            "right_answer": option_words(row.gold, row.options),
            "answer": option_words(row.answer or "", row.options),
            "by": "",
            "grade": "",
        }
        for row in evenly(answered, evaluation, count)
    ]


def graders(evaluation: Evaluation, path: str) -> Graders:
    """How far the model that graded an evaluation's answers and people agree.

    Args:
        evaluation: graded by a rubric.
        path: rows as `draw_answers` gives them, each with ``grade`` filled in, and ``by``, the name
            of who graded it, where there are several; rows without a grade are passed over.

    Raises:
        InputError: a row cannot be used, none has a grade, or no model graded the answers.
    """
    _check(evaluation)
    scale = {score: grade for grade, score in GRADES.items()}
    graded = {(row.method, row.id): scale[row.score] for row in evaluation.results if not row.error}
    labels: dict[str, dict[int, str]] = {}
    names = {MODEL: "the model"}
    numbers: dict[str, int] = {}
    for where, row in read_rows(path, "file of grades"):
        method, grade = row.get("method", evaluation.methods[0]), row.get("grade")
        by = str(row.get("by") or "people")
        key = (method, row.get("id"))
        if not grade:
            continue
        if key not in graded:
            raise InputError(f"{where}: the evaluation has no answer {row.get('id')} of {method}.")
        if grade not in GRADES:
            raise InputError(f"{where}: grade is to be one of {', '.join(GRADES)}.")
        number = numbers.setdefault(by, len(numbers) + 1)
        names[number] = by
        by_grader = labels.setdefault(f"{method}/{row['id']}", {MODEL: graded[key]})
        if number in by_grader:
            raise InputError(f"{where}: {by} grades {row['id']} of {method} again.")
        by_grader[number] = grade
    if not labels:
        raise InputError(f"{path} has no grade yet: write {', '.join(GRADES)} into grade.")
    return Graders(names, agreement(labels))


def _check(evaluation: Evaluation) -> None:
    if "with a rubric" not in dict(evaluation.about).get("metric", ""):
        raise InputError(
            "No model graded these answers: evaluate them with --rubric FILE, or by a pearl.Graded."
        )
