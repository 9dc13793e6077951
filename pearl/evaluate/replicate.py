"""Recorded outcomes as an evaluation: the tables of a finished experiment, without a model.

A row is one JSON object a line: ``split``, ``method``, ``qid``, ``answer`` and
``gold``, as the outcomes of PEARL's published runs are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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

_KEYS = ("split", "method", "qid", "answer", "gold")


@dataclass(frozen=True, slots=True)
class _Row:
    """A recorded row, with its file and line."""

    where: str
    split: str
    method: str
    qid: str
    answer: str
    gold: str

    @property
    def key(self) -> tuple[str, str]:
        """Its question; the same number stands for others in other splits."""
        return self.split, self.qid


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
    rows = [_row(row, where) for where, row in read_rows(path, "file of outcomes")]
    golds = _golds(rows)
    if not golds:
        raise InputError(f'{path} has no question: give rows such as {{"gold": "B", …}}.')
    last = max(LAST, *(gold for gold in golds.values() if _is_letter(gold)), LAST)
    _check_once(rows)
    results = tuple(_result(row, golds[row.key], last) for row in rows if row.key in golds)
    strays = tuple(_result(row, "", last) for row in rows if row.key not in golds)
    found = dict.fromkeys(row.method for row in rows)
    methods = tuple(sorted(found, key=lambda one: _rank(one, tuple(found))))
    asked = dict(Counter(split for split, _ in golds))
    called = {method: CALLED[method] for method in methods if method in CALLED}
    return Evaluation(
        title=f"Recorded outcomes: {Path(path).name}",
        about=_about(path, asked, called),
        methods=methods,
        asked=asked,
        results=results,
        notes=tuple(_notes(methods, called, results, strays, last)),
        strays=strays,
        called=called,
    )


def _row(row: dict[str, Any], where: str) -> _Row:
    for key in _KEYS:
        if key not in row:
            raise InputError(f"{where} has no {key}: give {', '.join(_KEYS)}.")
        value = row[key]
        is_text = isinstance(value, str) or (value is None and key in ("answer", "gold"))
        if key == "qid" and isinstance(value, int) and not isinstance(value, bool):
            is_text = True
        if not is_text:
            raise InputError(f"{where}: {key} is to be a text.")
    told = {key: "" if row[key] is None else str(row[key]) for key in _KEYS}
    if not told["method"].strip():
        raise InputError(f"{where} names no method: give one.")
    gold = told["gold"].strip()
    return _Row(where, told["split"], told["method"], told["qid"], told["answer"].strip(), gold)


def _golds(rows: Iterable[_Row]) -> dict[tuple[str, str], str]:
    """The gold option of every question, which all its rows agree on."""
    golds: dict[tuple[str, str], str] = {}
    first: dict[tuple[str, str], str] = {}
    for row in rows:
        if not row.gold:
            continue
        if golds.setdefault(row.key, row.gold) != row.gold:
            raise InputError(
                f"{row.where} has another gold option than {first[row.key]} for the same "
                "question: mend one of them."
            )
        first.setdefault(row.key, row.where)
    return golds


def _check_once(rows: Iterable[_Row]) -> None:
    seen: dict[tuple[str, str, str], str] = {}
    for row in rows:
        key = (row.method, *row.key)
        if key in seen:
            raise InputError(
                f"{row.where} has the method and the question of {seen[key]}: keep one of them."
            )
        seen[key] = row.where


def _result(row: _Row, gold: str, last: str) -> Result:
    named = _is_letter(row.answer) and row.answer <= last
    # Where options are no letters, an answer is taken by its words.
    answer = row.answer if named or (gold and not _is_letter(gold) and row.answer) else None
    # The published count compares what stands there, and finds two gaps to be alike.
    score = float(answer == gold) if gold else float(row.answer == row.gold)
    return Result(
        method=row.method,
        id=row.qid,
        split=row.split,
        score=score,
        gold=gold,
        answer=answer,
        words="" if answer else row.answer,
    )


def _is_letter(text: str) -> bool:
    return len(text) == 1 and text.isascii() and text.isupper()


def _rank(method: str, found: tuple[str, ...]) -> tuple[int, int]:
    """Methods of the published outcomes in their order, others in the file's."""
    known = list(CALLED)
    return (0, known.index(method)) if method in CALLED else (1, found.index(method))


def _about(
    path: str, asked: Mapping[str, int], called: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    splits = ", ".join(f"{split or 'no split'} {count:,}" for split, count in asked.items())
    about = [("file", path), ("questions", f"{sum(asked.values()):,}: {splits}")]
    if called:
        told = ", ".join(f"{words} = {method}" for method, words in called.items())
        about.append(("methods", told))
    return tuple(about)


def _notes(
    methods: tuple[str, ...],
    called: Mapping[str, str],
    results: tuple[Result, ...],
    strays: tuple[Result, ...],
    last: str,
) -> Iterable[str]:
    yield (
        "The published way of counting is right ÷ recorded rows: the column % of rows. Beside it "
        "stand the share of the rows that name an option, and the share of all questions, where "
        "one that a method has no row for is wrong."
    )
    if strays:
        yield _told_strays(methods, called, strays)
    unnamed = Counter(one.words for one in results if one.answer is None)
    if unnamed:
        forms = ", ".join(f'"{one}"' if one else "nothing" for one, _ in unnamed.most_common(5))
        more = ", …" if len(unnamed) > 5 else ""
        count = unnamed.total()
        rows = "row of a question names" if count == 1 else "rows of questions name"
        yield (
            f"{count:,} {rows} no option from A to {last} ({forms}{more}): "
            "without one, an answer is wrong."
        )


def _told_strays(
    methods: tuple[str, ...], called: Mapping[str, str], strays: tuple[Result, ...]
) -> str:
    by_method = Counter(one.method for one in strays)
    owners = ", ".join(
        f"{by_method[method]:,} of {called.get(method, method)}"
        for method in methods
        if by_method[method]
    )
    what = "row is a fragment" if len(strays) == 1 else "rows are fragments"
    told = (
        f"{len(strays):,} recorded {what} of a broken file ({owners}) and no question, without a "
        "gold option: counted among the rows, as in the published figures, and nowhere else."
    )
    alike = sum(one.score == 1 for one in strays)
    if alike:
        told += (
            f" In {alike:,} of them both the answer and the gold option are missing, which the "
            "published count takes for right; the count of questions leaves them out."
        )
    return told
