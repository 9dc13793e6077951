"""Two jobs of one kind, row by row: where they answered differently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pearl.evaluate.statistics import mcnemar

Row: TypeAlias = Mapping[str, Any]
"""A row of a job, as the store has it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """What two jobs made of one task.

    Args:
        id: the task's.
        first: the row of the one.
        second: the row of the other.
    """

    id: str
    first: Row
    second: Row

    @property
    def differs(self) -> bool:
        """Whether they came to different ends."""
        return outcome(self.first) != outcome(self.second)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two jobs.

    Args:
        pairs: the tasks that both have a row of, in the order of the first.
        only: the ids of tasks that only the first has, and only the second; one that stands for
            another question in each is in both.
        methods: of two evaluations, what each method that both have came to; empty for others.
    """

    pairs: tuple[Pair, ...]
    only: tuple[tuple[str, ...], tuple[str, ...]]
    methods: Mapping[str, Mapping[str, Any]]


def compare(first: Mapping[str, Row], second: Mapping[str, Row]) -> Comparison:
    """Hold two jobs against each other, each as its rows by their ids."""
    both = [name for name, row in first.items() if name in second and _same(row, second[name])]
    pairs = tuple(Pair(name, first[name], second[name]) for name in both)
    known = frozenset(both)
    only = (
        tuple(name for name in first if name not in known),
        tuple(name for name in second if name not in known),
    )
    return Comparison(pairs, only, _by_method([(pair.first, pair.second) for pair in pairs]))


def _same(first: Row, second: Row) -> bool:
    """Whether two rows are one question's; one that failed within Pearl says of none."""
    asked = [
        row.get("question") or row.get("result", {}).get("question") for row in (first, second)
    ]
    return None in asked or asked[0] == asked[1]


def outcome(row: Row) -> dict[str, Any]:
    """What two runs may agree or differ in."""
    option, result = row.get("option"), row.get("result", {})
    words = result.get("answer") if result else row.get("words")
    return {
        "status": row["status"],
        "option": option["letter"] if option else None,
        "correct": row.get("correct"),
        "words": words if not option else None,
        "reason": row["error"]["reason"] if row["status"] == "failed" else None,
    }


def _by_method(pairs: Sequence[tuple[Row, Row]]) -> dict[str, dict[str, Any]]:
    """What each method came to in two evaluations; empty for batches."""
    methods: dict[str, list[tuple[Row, Row]]] = {}
    for first, second in pairs:
        if "result" in first and "result" in second:
            methods.setdefault(first["result"]["method"], []).append((first, second))
    scores = {}
    for method, rows in methods.items():
        verdicts = [[bool(row["correct"]) for row in side] for side in zip(*rows, strict=True)]
        only = [
            sum(mine and not theirs for mine, theirs in zip(*sides, strict=True))
            for sides in (verdicts, verdicts[::-1])
        ]
        spent = [[row["result"]["usage"] for row in side] for side in zip(*rows, strict=True)]
        scores[method] = {
            "questions": len(rows),
            "right": [sum(side) for side in verdicts],
            "only": only,
            "p": mcnemar(*only),
            "tokens": [
                sum(use["prompt_tokens"] + use["completion_tokens"] for use in side) / len(rows)
                for side in spent
            ],
        }
    return scores
