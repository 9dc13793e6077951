"""How far a job is, and what it has come to."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pearl.llm import Usage
from pearl.llm.prices import Price, dollars
from pearl.runtime import Entry


@dataclass
class Tally:
    """How far a job is.

    Args:
        run: the run's name.
        total: how many tasks there are.
        price: what the model's tokens cost; None where that is not known.
        before: tasks that an earlier go brought to an end.
        done: rows with an answer, those of earlier goes among them.
        failed: rows without one, by reason.
        running: tasks under way.
        right: answers that are the gold ones.
        judged: questions whose right answer is known.
        calls: calls that were answered in this go, kept ones among them.
        kept: calls that needed no sending.
        vain: tries that got no usable answer.
        spent: tokens of everything that was sent in this go.
        started: when this go began, on the monotonic clock.
    """

    run: str
    total: int
    price: Price | None = None
    before: int = 0
    done: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    running: int = 0
    right: int = 0
    judged: int = 0
    calls: int = 0
    kept: int = 0
    vain: int = 0
    spent: Usage = field(default_factory=Usage)
    started: float = field(default_factory=time.monotonic)

    @property
    def finished(self) -> int:
        """Rows that have come to an end."""
        return self.done + self.failed.total()

    @property
    def cost(self) -> int | None:
        """What this go has cost, in millionths of a dollar; None where prices are not known."""
        return None if self.price is None else self.price.cost(self.spent)

    @property
    def seconds(self) -> float:
        """How long this go has taken."""
        return time.monotonic() - self.started

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at the pace so far; None before anything is done."""
        fresh = self.finished - self.before
        return self.seconds / fresh * (self.total - self.finished) if fresh else None

    def count_row(self, row: dict[str, Any]) -> None:
        """Add a task's row."""
        if row["status"] == "answered":
            self.done += 1
        else:
            self.failed[row["error"]["reason"]] += 1
        if row.get("correct") is not None:
            self.judged += 1
            self.right += row["correct"]

    def count_call(self, entry: Entry) -> None:
        """Add a line of a journal."""
        if entry.kind != "call":
            return
        if entry.status == "done":
            self.calls += 1
            self.kept += entry.kept
        else:
            self.vain += 1
        if not entry.kept:
            self.spent += entry.usage

    def table(self) -> Iterator[tuple[str, str]]:
        """The result for a person, a line a fact."""
        failed = "".join(f", {count} {reason}" for reason, count in self.failed.most_common())
        yield "answered", f"{self.done:,} of {self.total:,}"
        if self.failed:
            yield "failed", f"{self.failed.total():,} ({failed.removeprefix(', ')})"
        if self.judged:
            share = 100 * self.right / self.judged
            yield "right", f"{self.right:,} of {self.judged:,} with a gold answer ({share:.1f} %)"
        yield "calls", f"{self.calls - self.kept:,} made, {self.kept:,} kept, {self.vain:,} in vain"
        spent = self.spent
        share = 100 * spent.cached_tokens / spent.prompt_tokens if spent.prompt_tokens else 0.0
        yield (
            "tokens",
            f"{spent.prompt_tokens:,} read ({share:.0f} % of them from the endpoint's cache), "
            f"{spent.completion_tokens:,} written",
        )
        cost = self.cost
        yield "cost", dollars(cost) if cost is not None else "not known: no price for this model"
        yield "time", f"{self.seconds:,.1f} s"

    def as_object(self) -> dict[str, Any]:
        """The same as JSON data; money in dollars."""
        cost = self.cost
        return {
            "run": self.run,
            "questions": self.total,
            "answered": self.done,
            "failed": dict(self.failed),
            "right": self.right,
            "judged": self.judged,
            "calls": {"made": self.calls - self.kept, "kept": self.kept, "in_vain": self.vain},
            "prompt_tokens": self.spent.prompt_tokens,
            "completion_tokens": self.spent.completion_tokens,
            "cached_tokens": self.spent.cached_tokens,
            "cost": None if cost is None else cost / 1e6,
            "seconds": round(self.seconds, 3),
        }
