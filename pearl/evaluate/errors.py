"""Error analysis: wrong answers are drawn, labelled by a person, and counted (PEARL, section 5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from random import Random
from types import MappingProxyType
from typing import Any

from pearl.evaluate.accuracy_tables import shares
from pearl.evaluate.results import Evaluation, Result
from pearl.evaluate.statistics import interval
from pearl.lang.errors import InputError
from pearl.lang.rows import read_rows
from pearl.lang.text import one_line
from pearl.prompts.calls import letter
from pearl.report.document import Table, build, counts, figure, number, pair, percent, span, words

CATEGORIES: Mapping[str, str] = MappingProxyType(
    {
        "plan": "a step is missing or beside the question",
        "execution": "a step's output is wrong or incomplete",
        "mapping": "the open answer is right, the option is not",
        "gold": "the answer is right and the gold option is doubtful",
        "other": "none of these",
    }
)
"""The categories of errors, with their meanings."""

SEED = 1
NAMED = 10
"""The most rows without a category that a note names."""


def draw_errors(evaluation: Evaluation, count: int, method: str = "") -> list[dict[str, Any]]:
    """Draw wrong answers, evenly over the splits, the same ones each time.

    Questions that failed are left out, as their results say why.

    Args:
        evaluation: the results.
        count: how many to draw; fewer where there are no more.
        method: the method whose answers are drawn; by default the first that
            ran plans, or else the first.

    Returns:
        Rows in which a person fills in the category.

    Raises:
        InputError: there is no such method, or it has no wrong answer.
    """
    planned = {result.method for result in evaluation.results if result.plan}
    first = next((name for name in evaluation.methods if name in planned), evaluation.methods[0])
    chosen = method or first
    if chosen not in evaluation.methods:
        raise InputError(
            f"The evaluation has no method {chosen}: name one of {', '.join(evaluation.methods)}."
        )
    wrong = [item for item in evaluation.results_of(chosen) if item.score < 1 and not item.error]
    if not wrong:
        raise InputError(f"{chosen} has no wrong answer to draw.")
    return [
        {
            "method": result.method,
            "split": result.split,
            "id": result.id,
            "question": result.question,
            "options": {letter(at): option for at, option in enumerate(result.options)},
            "gold": result.gold,
            "chosen": result.answer,
            "open_answer": result.words,
            "plan": result.plan,
            "category": "",
        }
        for result in evenly(wrong, evaluation, count)
    ]


def evenly(results: Iterable[Result], evaluation: Evaluation, count: int) -> list[Result]:
    """Results drawn at random, as evenly over the splits as their sizes allow, the same ones each
    time."""
    every = list(results)
    groups = [[result for result in every if result.split == split] for split in evaluation.asked]
    random = Random(SEED)  # noqa: S311 - the same draw each time is what is wanted
    for group in groups:
        random.shuffle(group)
    turns = [(turn, at) for at, group in enumerate(groups) for turn in range(len(group))]
    drawn = sorted(sorted(turns)[:count], key=lambda place: place[1])
    return [groups[at][turn] for turn, at in drawn]


def error_table(path: str) -> Table:
    """The share of each category, in total and by split; a note names rows without one.

    Args:
        path: a file of drawn answers with categories filled in.

    Raises:
        InputError: it is no such file, or no row has a category.
    """
    valid: list[tuple[str, str]] = []
    invalid: list[str] = []
    for where, row in read_rows(path, "file of labelled answers"):
        category, split = row.get("category"), row.get("split", "")
        if not isinstance(category, str) or not isinstance(split, str):
            raise InputError(
                f'{where} has no "category": fill in a file that pearl report --errors wrote.'
            )
        written = one_line(category)
        if written.lower() in CATEGORIES:
            valid.append((split, written.lower()))
        else:
            shown = f'"{written[:30]}" is no category' if written else "empty"
            invalid.append(f"{where} ({shown})")
    if not valid:
        raise InputError(
            f"{path}: no row has a category yet that is one of {', '.join(CATEGORIES)}: write one "
            "into each."
        )
    splits = dict.fromkeys(split for split, _ in valid)
    rows = []
    for category, meaning in CATEGORIES.items():
        by_split = Counter(split for split, own in valid if own == category)
        share = shares("share", interval([float(own == category) for _, own in valid]))
        rows.append(
            {
                "category": category,
                "meaning": meaning,
                "count": by_split.total(),
                **{key.removeprefix("share_"): value for key, value in share.items()},
                **{f"in {split}": by_split[split] for split in splits},
            }
        )
    fields = [
        words("category", "category"),
        words("meaning", "what it means"),
        *counts(count="answers"),
        figure("share", "share", percent),
        pair(("low", "high"), "95 % interval", span),
    ]
    if len(splits) > 1:
        fields += [figure(f"in {split}", split or "no split", number) for split in splits]
    more = f" and {len(invalid) - NAMED:,} more" if len(invalid) > NAMED else ""
    note = f"Not counted: {', '.join(invalid[:NAMED])}{more}." if invalid else ""
    return build(f"Where {len(valid):,} wrong answers went wrong", fields, rows, note)
