"""The results of a review: all verdicts, how plans were judged, and how far annotators agree.

It also measures how far a model that graded answers by a rubric agrees with people, as its grades
are worth no more than that agreement. The coefficients are nltk's: Cohen's kappa, Fleiss' kappa and
Krippendorff's alpha.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import combinations
from statistics import fmean
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from pearl.evaluate.errors import evenly
from pearl.evaluate.results import Evaluation
from pearl.jobs.answer_metrics import GRADES, option_words
from pearl.lang.errors import InputError, install_command
from pearl.lang.rows import read_rows
from pearl.lang.text import counted, one_line
from pearl.report.document import Block, Column, Report, Table, Text, number, percent
from pearl.review.people import Person, everybody
from pearl.review.verdicts import (
    CATEGORIES,
    MappedAnswer,
    RecordedVerdict,
    Verdict,
    last,
    read_verdicts,
    read_versions,
    unswayed,
)
from pearl.store.database import reading
from pearl.store.tables import review_plans

if TYPE_CHECKING:
    from nltk.metrics.agreement import AnnotationTask
    from sqlalchemy import Engine

Labels = Mapping[str, Mapping[int, str]]
"""The label that each person gave each plan, by plan and person."""

Verdicts = Mapping[tuple[str, int], RecordedVerdict]
"""Verdicts by plan and person."""

MODEL = 0
"""The number of the model that mapped or graded the answers, among people's numbers."""

_CORRECT = (("yes", "Correct"), ("no", "Not correct"), ("unclear", "Cannot tell"))


@dataclass(frozen=True, slots=True)
class AnnotatorPair:
    """The agreement of two people on the plans that both judged.

    Args:
        first: the number of one person.
        second: the number of the other.
        plans: how many plans both judged.
        same: the share of these plans with the same label.
        kappa: Cohen's kappa; None where it is not defined.
    """

    first: int
    second: int
    plans: int
    same: float
    kappa: float | None


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of all people on one question.

    Args:
        plans: how many plans were judged by at least two people.
        same: the share of pairs of verdicts on the same plan that agree;
            None without pairs.
        cohen: the mean of the pairs' kappas, as far as they are defined.
        fleiss: Fleiss' kappa, over plans with the same number of verdicts.
        raters: that number of verdicts; 0 where there are none.
        rated: how many plans have that number.
        alpha: Krippendorff's alpha, over plans with any number of verdicts.
        pairs: each two people who judged some of the same plans.
    """

    plans: int
    same: float | None
    cohen: float | None
    fleiss: float | None
    raters: int
    rated: int
    alpha: float | None
    pairs: tuple[AnnotatorPair, ...]


def agreement(labels: Labels) -> Agreement:
    """How far people agree.

    A coefficient is None where it is not defined: where all verdicts are the
    same, or no plan has two.

    Args:
        labels: the labels of plans.

    Raises:
        InputError: nltk is not installed.
    """
    shared = {plan: marks for plan, marks in labels.items() if len(marks) > 1}
    people = sorted({person for marks in shared.values() for person in marks})
    pairs = []
    for first, second in combinations(people, 2):
        both = {
            plan: (marks[first], marks[second])
            for plan, marks in shared.items()
            if first in marks and second in marks
        }
        if both:
            same = sum(first == second for first, second in both.values()) / len(both)
            task = _task(both)
            kappa = float(task.kappa_pairwise("0", "1")) if task else None
            pairs.append(AnnotatorPair(first, second, len(both), same, kappa))
    compared = sum(pair.plans for pair in pairs)
    kappas = [pair.kappa for pair in pairs if pair.kappa is not None]
    # Fleiss' kappa is over the plans with the most frequent number of verdicts.
    counts = Counter(map(len, shared.values()))
    raters = max(counts, key=lambda number: (counts[number], number), default=0)
    rated = {
        plan: [marks[person] for person in sorted(marks)]
        for plan, marks in shared.items()
        if len(marks) == raters
    }
    fixed, every = _task(rated), _task({plan: [*marks.values()] for plan, marks in shared.items()})
    return Agreement(
        plans=len(shared),
        same=sum(pair.same * pair.plans for pair in pairs) / compared if compared else None,
        cohen=sum(kappas) / len(kappas) if kappas else None,
        # nltk's pi estimates chance from all verdicts together, whoever gave them. With the same
        # number of verdicts on every plan that is Fleiss' kappa, even if the people differ.
        fleiss=float(fixed.pi()) if fixed else None,
        raters=raters,
        rated=len(rated),
        alpha=float(every.alpha()) if every else None,
        pairs=tuple(pairs),
    )


def _task(labels: Mapping[str, Sequence[str]]) -> AnnotationTask | None:
    """The labels as nltk's task, which computes agreement; None where all are the same."""
    if len({label for marks in labels.values() for label in marks}) < 2:
        return None
    try:
        from nltk.metrics.agreement import AnnotationTask
    except ImportError:
        raise InputError(f"Agreement needs nltk: {install_command('review')}.") from None
    return AnnotationTask(
        [
            (str(place), plan, label)
            for plan, marks in labels.items()
            for place, label in enumerate(marks)
        ]
    )


def label_of(verdict: Verdict, question: str) -> str:
    """The label of a verdict for the question ``correct``, where "cannot tell" is an answer like
    the others; or, for a category, whether it has that, ``yes`` or ``no``."""
    if question == "correct":
        return verdict.correct
    return "yes" if question in verdict.categories else "no"


def labels_of(verdicts: Verdicts, question: str) -> Labels:
    """The labels of all verdicts for one question."""
    labels: dict[str, dict[int, str]] = {}
    for (plan, person), recorded in verdicts.items():
        labels.setdefault(plan, {})[person] = label_of(recorded.verdict, question)
    return labels


def review_report(
    recorded: Sequence[RecordedVerdict],
    people: Mapping[int, Person],
    about: Sequence[tuple[str, str]] = (),
    mapped: Sequence[MappedAnswer] = (),
) -> Report:
    """The report of a review.

    Args:
        recorded: verdicts, in the order in which they were given.
        people: the annotators, by number.
        about: facts for its head, each with a name.
        mapped: the options that annotators mapped answers to.

    Raises:
        InputError: nltk is not installed.
    """
    final, blind = last(recorded), unswayed(recorded)
    plans = len({plan for plan, _ in final})
    facts = (*about, ("verdicts", f"{len(final):,} on {counted(plans, 'plan')}"))
    if not final:
        return Report("Review", facts, (Text(("There are no verdicts yet.",)),))
    fields = [("correct", "Correct"), *((category.name, category.words) for category in CATEGORIES)]
    questions = [(name, words, agreement(labels_of(blind, name))) for name, words in fields]
    blocks: list[Block] = [_judged(final, people), _agreed(questions)]
    names = {number: person.name for number, person in people.items()}
    if (total := questions[0][2]).pairs:
        title = "Pairs of people on whether plans are correct"
        blocks.append(pairs_table(title, "plans", total, names))
    if mapped:
        # PEARL's mapping study: do people and the model map the same answer to the same option?
        labels: dict[str, dict[int, str]] = {}
        for answer in mapped:
            labels.setdefault(answer.plan, {MODEL: answer.chosen})[answer.person] = answer.option
        names = {MODEL: "the model", **names}
        table = pairs_table("Answers mapped to options", "plans", agreement(labels), names)
        note = "Of answers that both mapped to an option, or to none."
        blocks.append(replace(table, note=note))
    return Report("Review", facts, tuple(blocks))


def _judged(final: Verdicts, people: Mapping[int, Person]) -> Table:
    """The paper's table (PEARL, section 5): shares of plans judged correct, and by category."""
    groups = [("everybody", [recorded.verdict for recorded in final.values()])]
    for id, person in people.items():
        own = [recorded.verdict for recorded in final.values() if recorded.person == id]
        if own:
            groups.append((person.name, own))
    names, judged = map(list, zip(*groups, strict=True))
    holds = [(words, "correct", name) for name, words in _CORRECT]
    holds += [(choice.words, choice.name, "yes") for choice in CATEGORIES]
    lines: list[tuple[str, list[str], dict[str, Any]]] = []
    for words, name, label in holds:
        shares = [fmean(label_of(verdict, name) == label for verdict in own) for own in judged]
        lines.append((words, list(map(percent, shares)), {"share": shares}))
    means = [fmean(verdict.confidence for verdict in own) for own in judged]
    lines.append(("Mean confidence, of 5", [f"{mean:.2f}" for mean in means], {"mean": means}))
    counts = list(map(len, judged))
    lines.append(("Verdicts", [f"{count:,}" for count in counts], {"count": counts}))
    return Table(
        "Verdicts",
        (Column("", "left"), *map(Column, names)),
        tuple((words, *cells) for words, cells, _ in lines),
        "Of what each person said last of each plan. Categories do not exclude one another.",
        tuple({"row": words, "of": names, **data} for words, _, data in lines),
    )


def _agreed(questions: Sequence[tuple[str, str, Agreement]]) -> Table:
    columns = ("plans", "same", "Cohen's κ", "Fleiss' κ", "Krippendorff's α")
    first = questions[0][2]
    note = (
        "Of plans with at least two verdicts; a verdict that was changed after others' were shown "
        "counts as it was before. Same: the share of pairs of verdicts on a plan that say the "
        "same. Cohen's κ is the mean over pairs of people. – stands where it is not defined, as "
        "where everybody always says the same."
    )
    if first.rated != first.plans:
        note += f" Fleiss' κ is of the {first.rated:,} plans with {first.raters} verdicts."
    rows, data = [], []
    for name, words, result in questions:
        cells = (number(value, 3) for value in (result.cohen, result.fleiss, result.alpha))
        rows.append((words, f"{result.plans:,}", percent(result.same), *cells))
        data.append(
            {
                "question": name,
                "plans": result.plans,
                "same": result.same,
                "cohen": result.cohen,
                "fleiss": result.fleiss,
                "fleiss_plans": result.rated,
                "fleiss_verdicts": result.raters,
                "krippendorff": result.alpha,
            }
        )
    return Table(
        "Agreement", (Column("", "left"), *map(Column, columns)), tuple(rows), note, tuple(data)
    )


def pairs_table(title: str, noun: str, total: Agreement, names: Mapping[int, str]) -> Table:
    """A table of the agreement of each pair.

    Args:
        title: the table's title.
        noun: what was judged, in the plural.
        total: the agreement of all.
        names: the annotators' names, by number.
    """
    rows, data = [], []
    for pair in total.pairs:
        first, second = (names.get(id, f"annotator {id}") for id in (pair.first, pair.second))
        kappa = number(pair.kappa, 3)
        rows.append((f"{first} and {second}", f"{pair.plans:,}", percent(pair.same), kappa))
        shares = {noun: pair.plans, "same": pair.same, "cohen": pair.kappa}
        data.append({"one": first, "other": second, **shares})
    return Table(
        title,
        (Column("", "left"), Column(noun), Column("same"), Column("Cohen's κ")),
        tuple(rows),
        data=tuple(data),
    )


@dataclass(frozen=True, slots=True)
class Graders:
    """How far a model and people agree on grades.

    Args:
        names: names by number; `MODEL` is the model, and people follow in the order of their file.
        agreement: the agreement of all, and of each pair.
    """

    names: dict[int, str]
    agreement: Agreement

    @property
    def table(self) -> Table:
        """The agreement of each pair, as a table of a report."""
        title = "The grades of the model and of people"
        return pairs_table(title, "answers", self.agreement, self.names)


def draw_answers(evaluation: Evaluation, count: int) -> list[dict[str, Any]]:
    """Draw answers for people to grade, without the model's grades.

    Args:
        evaluation: the evaluation whose answers a model graded.
        count: the most answers, drawn evenly over splits.

    Returns:
        Rows with an empty ``grade``.

    Raises:
        InputError: no model graded the answers.
    """
    answered = [row for row in evaluation.results if row.answer is not None and not row.error]
    _check_graded(evaluation)
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
        path: a file of rows as `draw_answers` gives them, with ``grade`` filled in, and ``by``, the
            grader's name, where there are several; rows without a grade are skipped.

    Raises:
        InputError: a row cannot be used, none has a grade, or no model graded the answers.
    """
    _check_graded(evaluation)
    scale = {score: grade for grade, score in GRADES.items()}
    graded = {(row.method, row.id): scale[row.score] for row in evaluation.results if not row.error}
    labels: dict[str, dict[int, str]] = {}
    names = {MODEL: "the model"}
    numbers: dict[str, int] = {}
    for where, row in read_rows(path, "file of grades"):
        method, grade = row.get("method", evaluation.methods[0]), row.get("grade")
        by, id = str(row.get("by") or "people"), row.get("id")
        if not grade:
            continue
        if not isinstance(method, str) or not isinstance(id, str) or (method, id) not in graded:
            raise InputError(f"{where}: the evaluation has no answer {id} of {method}.")
        grade = one_line(str(grade).lower())
        if grade not in GRADES:
            raise InputError(f"{where}: grade is to be one of {', '.join(GRADES)}.")
        number = numbers.setdefault(by, len(numbers) + 1)
        names[number] = by
        by_grader = labels.setdefault(f"{method}/{id}", {MODEL: graded[method, id]})
        if number in by_grader:
            raise InputError(f"{where}: {by} grades {id} of {method} again.")
        by_grader[number] = grade
    if not labels:
        raise InputError(f"{path} has no grade yet: write {', '.join(GRADES)} into grade.")
    return Graders(names, agreement(labels))


def _check_graded(evaluation: Evaluation) -> None:
    if "with a rubric" not in dict(evaluation.about).get("metric", ""):
        raise InputError(
            "No model graded these answers: evaluate them with --rubric FILE, or by a pearl.Graded."
        )


_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Characters with which a spreadsheet formula may begin."""


def verdict_rows(engine: Engine) -> list[dict[str, Any]]:
    """Each person's last verdict on each plan, as JSON data."""
    people = everybody(engine)
    with reading(engine) as connection:
        plans = {row.id: row for row in connection.execute(select(review_plans))}
    edits: dict[tuple[str, int], list[str]] = {}
    for edit in read_versions(engine):
        edits.setdefault((edit.plan, edit.person), []).append(edit.file or f"version {edit.number}")
    verdicts = last(read_verdicts(engine)).values()
    return [
        {
            "plan": plans[row.plan].name,
            "plan_id": row.plan,
            "question": plans[row.plan].question,
            "annotator": people[row.person].name,
            "correct": row.verdict.correct,
            "confidence": row.verdict.confidence,
            "categories": list(row.verdict.categories),
            "words": row.verdict.words,
            "after_others": row.seen,
            "versions": edits.get((row.plan, row.person), []),
            "given": datetime.fromtimestamp(row.time, UTC).isoformat(timespec="seconds"),
        }
        for row in sorted(verdicts, key=lambda row: (plans[row.plan].added, row.plan, row.person))
    ]


def verdict_table(rows: list[dict[str, Any]]) -> str:
    """The rows of `verdict_rows` as CSV, with a column for each category."""
    names = [category.name for category in CATEGORIES]
    heads = ["plan", "plan_id", "question", "annotator", "correct", "confidence", *names,
             "words", "after_others", "versions", "given"]  # fmt: skip
    text = io.StringIO()
    writer = csv.DictWriter(text, heads, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        flat = row | {name: int(name in row["categories"]) for name in names}
        flat |= {"after_others": int(row["after_others"]), "versions": "; ".join(row["versions"])}
        writer.writerow(
            {
                head: f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
                for head, cell in flat.items()
            }
        )
    return text.getvalue()
