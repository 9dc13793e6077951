"""A job as a page, with its rows; and a comparison of two jobs of one kind, row by row."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any, TypeAlias

from pearl.evaluate.statistics import compare as compare_scores
from pearl.jobs.workers import remarks_on
from pearl.lang.text import counted
from pearl.models.base import Usage
from pearl.models.tokens import Prices
from pearl.store.history import (
    RowCounts,
    RunFilter,
    RunRow,
    count_rows,
    list_runs,
    read_beside,
    read_row_keys,
    read_rows,
    read_tags,
    score_of,
)
from pearl.store.totals import Totals, totals, totals_of_items
from pearl.viewer.render import View, render

if TYPE_CHECKING:
    from sqlalchemy import Engine

MOST = 5000
"""The most rows in a file; more would slow a browser down."""

COMPARED = ("ask", "run", "batch", "eval")
"""Kinds of runs that can be compared with another of their kind."""

CHOICE = 50
"""The most runs, the latest ones, to choose from for a comparison."""

STATES = {
    "running": "running", "ended": "ended", "failed": "ended without an answer",
    "stopped": "stopped on the way",
}  # fmt: skip
"""The status of a run, in words."""

_SEARCHED = ("question", "words", "gold", "error", "document")
"""The fields of a row that a search looks in."""


@dataclass(frozen=True, slots=True)
class JobRow:
    """A row of a job.

    Args:
        row: the row, as the store has it.
        counts: totals of its calls, over all times that it was started.
        seconds: from its last start to the end of its last call; None where that is not known.
    """

    row: Mapping[str, Any]
    counts: Totals = field(default_factory=Totals)
    seconds: float | None = None

    def get(self, key: str) -> Any:  # noqa: ANN401 - any JSON
        """The value of a key in the row, or in the result in it; an empty text where missing."""
        return self.row.get(key) or (self.row.get("result") or {}).get(key) or ""

    @property
    def id(self) -> str:
        """The item's id."""
        return str(self.row.get("id", ""))

    @property
    def answered(self) -> bool:
        """Whether it has an answer."""
        return self.row.get("status") == "answered"

    @property
    def remarks(self) -> str:
        """The remarks on its answer (`remarks_on`), as one text."""
        return ", ".join(remarks_on(self.row))

    @property
    def reason(self) -> str:
        """The reason of its failure, in a word; empty where there is none."""
        return str((self.row.get("error") or {}).get("reason", ""))

    @property
    def verdict(self) -> str:
        """``right``, ``wrong``, ``partly``, or empty where that is not known."""
        return self.scored.partition(",")[0]

    @property
    def scored(self) -> str:
        """The verdict, with the score if that is partial; ``not scored`` where scoring failed."""
        return "not scored" if self.answer and not self.answered else scored(score_of(self.row))

    def is_asked_for(self, view: View) -> bool:
        """Whether it matches the words, the verdict and the method of a page's query."""
        shown, method = view.get("show"), view.get("method")
        verdict = self.verdict if self.answered else f"failed {self.verdict}"
        if shown and shown not in verdict.split():
            return False
        if method and method != self.method:
            return False
        words = view.get("q").casefold().split()
        text = " ".join([self.id, *map(str, map(self.get, _SEARCHED)), self.answer]).casefold()
        return all(word in text for word in words)

    @property
    def options(self) -> Sequence[str]:
        """The options; empty where there are none, or they are not known."""
        return tuple(self.get("options"))

    @property
    def gold(self) -> str:
        """The gold answer, with an option's text (`with_text`); empty where it is not known."""
        return with_text(str(self.get("gold")), self.options)

    @property
    def method(self) -> str:
        """The method of an evaluation's row; empty for other rows."""
        if "example" not in self.row:
            return ""
        method = (self.row.get("result") or {}).get("method")
        return str(method or self.id.partition("/")[0])

    @property
    def answer(self) -> str:
        """Its result in one line: an option, an answer, or counts of actions, plans or labels."""
        if not self.answered and not self.get("answer"):
            return ""
        option = self.row.get("option")
        if isinstance(option, dict):
            return f"{option['letter']}. {option.get('text')}" if option.get("letter") else "none"
        for key, noun in (("actions", "action"), ("tries", "plan")):
            if isinstance(self.row.get(key), list):
                return counted(len(self.row[key]), noun)
        if isinstance(self.row.get("labels"), list):
            return ", ".join(map(str, self.row["labels"]))
        return str(self.row.get("words") or with_text(str(self.get("answer")), self.options))


def scored(score: float | None) -> str:
    """``right``, ``wrong`` or ``partly, score 0.5``; empty where there is no score."""
    if score is None:
        return ""
    return {0.0: "wrong", 1.0: "right"}.get(score, f"partly, score {score:.3g}")


def with_text(answer: str, options: Sequence[str]) -> str:
    """An answer; if it is the letter of an option, with that option's text, as ``B. no``."""
    texts = dict(zip(ascii_uppercase, options, strict=False))
    return f"{answer}. {texts[answer]}" if answer in texts else answer


def count_remarks(rows: Iterable[Mapping[str, Any]]) -> str:
    """How many answers have each remark, in words; empty where none has any."""
    answered = (row for row in rows if row.get("status") == "answered")
    counts = Counter(remark for row in answered for remark in remarks_on(row))
    return ", ".join(f"{remark}: {count:,}" for remark, count in counts.items())


def job_page(engine: Engine, run: RunRow, prices: Prices, view: View | None = None) -> str:
    """The page of a job, with its rows.

    Args:
        engine: the store's database.
        run: the job's run.
        prices: the price table.
        view: the request, where it is served; None for a file.
    """
    size = count_rows(engine, [run.name]).get(run.name)
    methods = str(run.head.get("methods", "")).split(", ") if run.kind == "eval" else [""]
    groups: dict[str, tuple[RowCounts, Totals]] = {}
    for method in methods:
        if rows := count_rows(engine, [run.name], method).get(run.name):
            groups[method] = rows, totals(engine, run.name, method=method)
    failed = (JobRow(row) for _, row in read_rows(engine, run.name, status="failed"))
    items, found, links = _rows_shown(engine, run, view)
    return render(
        "job",
        view,
        running=run.status == "running",
        name=run.name,
        run=run,
        state=STATES[run.status],
        total=totals(engine, run.name),
        pricing=(prices, str(run.head.get("model", ""))),
        **tags_and_others(engine, run, view),
        items=items,
        found=found,
        links=links,
        count=size.rows if size else 0,
        groups=groups,
        reasons=Counter(item.reason for item in failed).most_common(),
    )


def _rows_shown(
    engine: Engine, run: RunRow, view: View | None
) -> tuple[list[JobRow], int, dict[str, str]]:
    """The rows on a page, how many rows match its query, and links to the other pages.

    Only the calls of rows on a served page are read. A file has at most `MOST` rows: if there are
    more, those that failed or are wrong come first.
    """
    if view is None:
        counts = totals_of_items(engine, run.name)
        items = [JobRow(row, *counts.get(name, ())) for name, row in read_rows(engine, run.name)]
        if len(items) > MOST:
            items.sort(key=lambda item: item.answered and item.verdict != "wrong")
        return items[:MOST], len(items), {}
    if _is_narrowed(view):
        rows = (JobRow(row) for _, row in read_rows(engine, run.name))
        names = [item.id for item in rows if item.is_asked_for(view)]
    else:
        keys = read_row_keys(engine, run.name)
        names = sorted(keys, key=lambda name: keys[name].position)
    shown, links = view.some(names)
    counts = totals_of_items(engine, run.name, shown)
    shown_rows = read_rows(engine, run.name, shown)
    return [JobRow(row, *counts.get(name, ())) for name, row in shown_rows], len(names), links


def _is_narrowed(view: View) -> bool:
    """Whether a page's query selects only some rows."""
    return any(map(view.get, ("q", "show", "method")))


def neighbours(engine: Engine, run: RunRow, item: str, view: View | None) -> dict[str, str]:
    """Links to the previous and the next row, among those that match the page's query."""
    if not view or not item:
        return {}
    before, behind = "", ""
    if _is_narrowed(view):
        rows = (JobRow(row) for _, row in read_rows(engine, run.name))
        names = [each.id for each in rows if each.is_asked_for(view) or each.id == item]
        if item in names:
            at = names.index(item)
            before, behind = (names[at - 1] if at else ""), "".join(names[at + 1 : at + 2])
    else:
        before, behind = read_beside(engine, run.name, item)
    ids = {"Previous row": before, "Next row": behind}
    return {label: view.link(item=name) for label, name in ids.items() if name}


def tags_and_others(engine: Engine, run: RunRow, view: View | None) -> dict[str, Any]:
    """A run's tags, and, for a served page, other runs that it may be compared with."""
    others: list[RunRow] = []
    if view and run.kind in COMPARED:
        same_kind = list_runs(engine, time.time(), CHOICE + 1, RunFilter(kind=run.kind))
        others = [other for other in same_kind if other.name != run.name]
        others.sort(key=lambda other: other.head.get("questions") != run.head.get("questions"))
    tags = ", ".join(read_tags(engine, [run.name])[run.name])
    return {"called": tags, "others": others[:CHOICE]}


# --- two jobs ---

Row: TypeAlias = Mapping[str, Any]
"""A row of a job, as the store has it."""


@dataclass(frozen=True, slots=True)
class RowPair:
    """The rows of two jobs for the same task.

    Args:
        id: the task's id.
        first: the first job's row.
        second: the second job's row.
    """

    id: str
    first: Row
    second: Row

    @property
    def differs(self) -> bool:
        """Whether their outcomes differ."""
        return outcome(self.first) != outcome(self.second)


@dataclass(frozen=True, slots=True)
class JobComparison:
    """A comparison of two jobs.

    Args:
        pairs: the tasks that both have a row for, in the order of the first.
        only: the ids of tasks that only the first has, and only the second; an id that means
            another question in each is in both.
        methods: for evaluations, statistics of each method that both have; empty for other jobs.
    """

    pairs: tuple[RowPair, ...]
    only: tuple[tuple[str, ...], tuple[str, ...]]
    methods: Mapping[str, Mapping[str, Any]]


def compare(first: Mapping[str, Row], second: Mapping[str, Row]) -> JobComparison:
    """Compare two jobs, given their rows by id."""
    pairs = [
        RowPair(name, row, second[name])
        for name, row in first.items()
        if name in second and _same(row, second[name])
    ]
    known = {pair.id for pair in pairs}
    alone = [tuple(name for name in side if name not in known) for side in (first, second)]
    return JobComparison(tuple(pairs), (alone[0], alone[1]), _by_method(pairs))


def _same(first: Row, second: Row) -> bool:
    """Whether two rows are about the same question, as far as they have its text."""
    asked = [
        row.get("question") or row.get("result", {}).get("question") for row in (first, second)
    ]
    return None in asked or asked[0] == asked[1]


def outcome(row: Row) -> dict[str, Any]:
    """The parts of a row in which two runs are compared."""
    option, result = row.get("option"), row.get("result", {})
    words = result.get("answer") if result else row.get("words")
    return {
        "status": row["status"],
        "option": option["letter"] if option else None,
        "correct": row.get("correct"),
        "score": score_of(row),
        "words": words if not option else None,
        "reason": row["error"]["reason"] if row["status"] == "failed" else None,
    }


def _by_method(pairs: Iterable[RowPair]) -> dict[str, dict[str, Any]]:
    """Statistics of each method in two evaluations; empty for batches."""
    methods: dict[str, list[tuple[Row, Row]]] = {}
    for pair in pairs:
        if "result" in pair.first and "result" in pair.second:
            method = pair.first["result"]["method"]
            methods.setdefault(method, []).append((pair.first, pair.second))
    compared = {}
    for method, rows in methods.items():
        sides = [list(side) for side in zip(*rows, strict=True)]
        scores: list[dict[Hashable, float]]
        scores = [dict(enumerate(score_of(row) or 0.0 for row in side)) for side in sides]
        counts, test = list(map(RowCounts.of, sides)), compare_scores(*scores)
        assert test is not None
        compared[method] = {
            "questions": len(rows),
            "right": [side.right for side in counts],
            "score": [side.mean for side in counts],
            "only": [test.only_first, test.only_second],
            "p": test.p,
            "test": test.test,
            "tokens": list(map(_mean_tokens, sides)),
        }
    return compared


def _mean_tokens(rows: Sequence[Row]) -> float | None:
    """Mean tokens per answer in an evaluation; None where the endpoint reports none."""
    results = [row["result"] for row in rows]
    spent = sum((Usage(**result["usage"]) for result in results), Usage())
    reported = spent.is_reported(sum(result["calls"] for result in results))
    return spent.total / len(rows) if reported else None
