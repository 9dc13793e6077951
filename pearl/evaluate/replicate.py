"""Recorded outcomes as an evaluation: the tables of a finished experiment, without a model.

A row is one JSON object a line: ``split``, ``method``, ``qid``, ``answer`` and
``gold``, as the outcomes of PEARL's published runs are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pearl.evaluate.results import Evaluation, Result
from pearl.lang.source import InputError, read_rows

CALLED: Mapping[str, str] = MappingProxyType(
    {
        "baseline_gqa_out": "zero-shot",
        "pearl_out": "PEARL run 1",
        "pearl_out_1": "PEARL run 2",
        "baseline_mcq_out": "multiple choice",
    }
)
"""Words for the methods of the published outcomes, in the order to show them."""

LAST = "D"
"""The last option where no row says more: questions of QuALITY have four."""

_KEYS: Mapping[str, Any] = MappingProxyType(
    {"split": str, "method": str, "qid": str | int, "answer": str | None, "gold": str | None}
)


def read_outcomes(path: str) -> Evaluation:
    """Read recorded outcomes.

    A question is known by its split and its number, and there are as many as
    have a gold option in some row. A row without a gold option whose question
    no other row has is no question but a fragment of a broken file: it counts
    among the rows, as the published figures count it, and nowhere else. Those
    figures take a fragment with neither answer nor gold option for right.

    Args:
        path: the file of outcomes.

    Raises:
        InputError: the file or a row cannot be used; the message names the
            file and the line.
    """
    rows = [(where, _row(row, where)) for where, row in read_rows(path, "file of outcomes")]
    golds: dict[tuple[str, str], tuple[str, str]] = {}
    for where, row in rows:
        if row.gold:
            # The same number stands for another question in another split.
            gold, first = golds.setdefault((row.split, row.id), (row.gold, where))
            if gold != row.gold:
                raise InputError(
                    f"{where} has another gold option than {first} for the same question: mend "
                    "one of them."
                )
    if not golds:
        raise InputError(f'{path} has no question: give rows such as {{"gold": "B", …}}.')
    last = max([LAST, *(gold for gold, _ in golds.values() if _is_letter(gold))])
    results: dict[tuple[str, str, str], tuple[str, Result]] = {}
    for where, row in rows:
        key = (row.method, row.split, row.id)
        if key in results:
            raise InputError(
                f"{where} has the method and the question of {results[key][0]}: keep one of them."
            )
        results[key] = (where, _score(row, golds.get(key[1:], ("", ""))[0], last))
    methods = dict.fromkeys(row.method for _, row in rows)
    called = {method: name for method, name in CALLED.items() if method in methods}
    sizes = dict(Counter(split for split, _ in golds))
    splits = ", ".join(f"{split or 'no split'} {count:,}" for split, count in sizes.items())
    about = [("file", path), ("questions", f"{len(golds):,}: {splits}")]
    if called:
        names = ", ".join(f"{name} = {method}" for method, name in called.items())
        about.append(("methods", names))
    evaluation = Evaluation(
        title=f"Recorded outcomes: {Path(path).name}",
        about=tuple(about),
        methods=tuple(dict.fromkeys([*called, *methods])),
        asked=sizes,
        results=tuple(result for key, (_, result) in results.items() if key[1:] in golds),
        strays=tuple(result for key, (_, result) in results.items() if key[1:] not in golds),
        called=called,
    )
    return replace(evaluation, notes=tuple(_notes(evaluation, last)))


def _row(row: dict[str, Any], where: str) -> Result:
    """A row as a result that is not scored yet; its answer stands as its words."""
    for key, kinds in _KEYS.items():
        if key not in row:
            raise InputError(f"{where} has no {key}: give {', '.join(_KEYS)}.")
        if not isinstance(row[key], kinds) or isinstance(row[key], bool):
            raise InputError(f"{where}: {key} is to be a text.")
    if not row["method"].strip():
        raise InputError(f"{where} names no method: give one.")
    gold, answer = ((row[key] or "").strip() for key in ("gold", "answer"))
    return Result(row["method"], str(row["qid"]), row["split"], gold=gold, words=answer)


def _score(row: Result, gold: str, last: str) -> Result:
    names_option = _is_letter(row.words) and row.words <= last
    # Where options are no letters, an answer is taken by its words.
    open_answer = gold and not _is_letter(gold) and row.words
    answer = row.words if names_option or open_answer else None
    # The published count compares what stands there, and finds two gaps to be alike.
    score = float(answer == gold) if gold else float(row.words == row.gold)
    return replace(row, score=score, gold=gold, answer=answer, words="" if answer else row.words)


def _is_letter(text: str) -> bool:
    return len(text) == 1 and text.isascii() and text.isupper()


def _notes(evaluation: Evaluation, last: str) -> Iterator[str]:
    yield (
        "The published way of counting is right ÷ recorded rows: the column % of rows. Beside it "
        "stand the share of the rows that name an option, and the share of all questions, where "
        "one that a method has no row for is wrong."
    )
    if strays := evaluation.strays:
        counts = Counter(stray.method for stray in strays)
        owners = ", ".join(
            f"{counts[method]:,} of {evaluation.name_of(method)}"
            for method in evaluation.methods
            if counts[method]
        )
        noun = "row is a fragment" if len(strays) == 1 else "rows are fragments"
        gaps = sum(stray.score == 1 for stray in strays)
        yield (
            f"{len(strays):,} recorded {noun} of a broken file ({owners}) and no question, without "
            "a gold option: counted among the rows, as in the published figures, and nowhere else."
        ) + (
            f" In {gaps:,} of them both the answer and the gold option are missing, which the "
            "published count takes for right; the count of questions leaves them out."
            if gaps
            else ""
        )
    unnamed = Counter(result.words for result in evaluation.results if result.answer is None)
    if unnamed:
        forms = ", ".join(f'"{text}"' if text else "nothing" for text, _ in unnamed.most_common(5))
        more = ", …" if len(unnamed) > 5 else ""
        count = unnamed.total()
        rows = "row of a question names" if count == 1 else "rows of questions name"
        yield (
            f"{count:,} {rows} no option from A to {last} ({forms}{more}): "
            "without one, an answer is wrong."
        )
