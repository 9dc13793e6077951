"""What a job's items came to: its rows, and what the journal says of the calls of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from sqlalchemy import and_, case, func, select

from pearl.models.base import Usage
from pearl.models.prices import Price
from pearl.run.journal import Entry
from pearl.store.database import reading
from pearl.store.tables import entries
from pearl.viewer.journal import Made
from pearl.viewer.text import counted, lines, short, shown, took
from pearl.viewer.timeline import Stage, draw, timeline

if TYPE_CHECKING:
    from sqlalchemy import Engine, Select

MOST = 5000
"""Rows on a page, at most: a browser shows no more of them with ease."""

SLOWEST = 10
"""Items that are named as the slowest."""


@dataclass(frozen=True, slots=True)
class Count:
    """What the calls of an item came to, over all the times that it was begun.

    Args:
        made: calls that were sent and answered.
        kept: calls that needed no sending.
        vain: tries that got no usable answer.
        spent: tokens of everything that was sent.
        begun: when it was begun last, in seconds since 1970; None where that is not known.
        ended: when its last call ended; None likewise.
    """

    made: int = 0
    kept: int = 0
    vain: int = 0
    spent: Usage = field(default_factory=Usage)
    begun: float | None = None
    ended: float | None = None

    @property
    def seconds(self) -> float | None:
        """How long it took the last time; None where that is not known."""
        if self.begun is None or self.ended is None:
            return None
        return max(0.0, self.ended - self.begun)


@dataclass(frozen=True, slots=True)
class Item:
    """A row of the page. Its texts are ready to be escaped.

    Args:
        id: the item's.
        method: of an evaluation; empty elsewhere.
        status: ``answered`` or ``failed``.
        verdict: ``right``, ``wrong``, or empty where that is not known.
        question: what was asked.
        answer: what came of it, in a line.
        words: the open answer.
        gold: the right answer; empty where it is not known.
        reason: why it failed, in a word.
        message: the same in a sentence.
        count: what its calls came to.
        cost: in millionths of a dollar; None where no price is known.
    """

    id: str
    method: str
    status: str
    verdict: str
    question: str
    answer: str
    words: str
    gold: str
    reason: str
    message: str
    count: Count
    cost: int | None


@dataclass(frozen=True, slots=True)
class Group:
    """What the items of a method came to, or those of a whole job.

    Args:
        title: the method's name.
        items: how many there are.
        answered: those with an answer.
        right: those whose answer is right.
        judged: those of which that is known.
        calls: made for them.
        tokens: read and written.
        cost: in millionths of a dollar; None where no price is known.
        median: half of them took no longer than so many seconds; None where that is not known.
    """

    title: str
    items: int
    answered: int
    right: int
    judged: int
    calls: int
    tokens: int
    cost: int | None
    median: float | None


@dataclass(frozen=True, slots=True)
class JobView:
    """What a job's page shows beside its head.

    Args:
        items: in order; where there are too many, those that failed or are wrong first.
        left_out: how many are not shown.
        groups: by method; one for all where there are no methods.
        reasons: why items failed, and how many, the commonest first.
        slowest: the items that took longest, each with its place in ``items``; None where it is
            not shown.
        drawn: the items in time, as a picture; empty where that is not known.
    """

    items: tuple[Item, ...]
    left_out: int
    groups: tuple[Group, ...]
    reasons: tuple[tuple[str, int], ...]
    slowest: tuple[tuple[Item, int | None], ...]
    drawn: Markup


def read_counts(engine: Engine, run: str) -> dict[str, Count]:
    """What the calls of each item of a job came to, by its id."""
    call, done = entries.c.kind == "call", entries.c.status == "done"
    made, kept = and_(call, done, ~entries.c.kept), and_(call, done, entries.c.kept)
    failed = and_(call, entries.c.status == "failed")
    sent = and_(call, ~entries.c.kept)
    tokens = (entries.c.prompt_tokens, entries.c.completion_tokens, entries.c.cached_tokens)
    query: Select[Any] = (
        select(
            entries.c.item,
            *(func.sum(case((where, 1), else_=0)) for where in (made, kept, failed)),
            *(func.sum(case((sent, column), else_=0)) for column in tokens),
            func.max(case((entries.c.path == "run", entries.c.started))),
            func.max(entries.c.started + entries.c.seconds),
        )
        .where(entries.c.run == run)
        .group_by(entries.c.item)
    )
    with reading(engine) as connection:
        found = [list(row) for row in connection.execute(query)]
    return {str(item): _count(told) for item, *told in found}


def _count(told: list[Any]) -> Count:
    *whole, begun, ended = told
    made, kept, vain, *tokens = map(int, whole)
    return Count(made, kept, vain, Usage(*tokens), begun, ended)


def view_job(
    rows: Iterable[Mapping[str, Any]], counts: Mapping[str, Count], price: Price | None
) -> JobView:
    """What a job came to, put together for a page.

    Args:
        rows: its results, in order.
        counts: what the calls of each item came to.
        price: what the model's tokens cost; None where that is not known.
    """
    items = [_item(row, counts.get(str(row.get("id")), Count()), price) for row in rows]
    listed = items
    if len(items) > MOST:
        listed = sorted(items, key=lambda one: one.status == "answered" and one.verdict != "wrong")
    places = {id(one): at for at, one in enumerate(listed[:MOST])}
    methods = dict.fromkeys(one.method for one in items)
    timed = [one for one in items if one.count.seconds is not None]
    slowest = sorted(timed, key=lambda one: -(one.count.seconds or 0.0))[:SLOWEST]
    return JobView(
        tuple(listed[:MOST]),
        max(0, len(items) - MOST),
        tuple(_group(name, [one for one in items if one.method == name]) for name in methods),
        tuple(Counter(one.reason for one in items if one.status != "answered").most_common()),
        tuple((one, places.get(id(one))) for one in slowest),
        _drawn(timed) if len(timed) == len(items) <= MOST else Markup(""),
    )


def _item(row: Mapping[str, Any], count: Count, price: Price | None) -> Item:
    result = row.get("result") or {}
    error = row.get("error") or {}
    status = str(row.get("status", ""))
    verdict = {True: "right", False: "wrong"}.get(row.get("correct"), "")  # type: ignore[arg-type]
    words = row.get("words") or result.get("words") or ""
    return Item(
        shown(row.get("id", "")),
        shown(_method(row)),
        shown(status),
        verdict,
        shown(row.get("question") or result.get("question") or ""),
        shown(short(_answer(row, result), 110)) if status == "answered" else "",
        lines(words),
        shown(row.get("gold") or result.get("gold") or ""),
        shown(error.get("reason", "")),
        shown(error.get("message", "")),
        count,
        None if price is None else price.cost(count.spent),
    )


def _method(row: Mapping[str, Any]) -> str:
    """The method of an evaluation's row: its id is that, and the question's behind it."""
    if "example" not in row:
        return ""
    return str((row.get("result") or {}).get("method") or str(row.get("id", "")).partition("/")[0])


def _answer(row: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """What came of an item: an option, an answer, actions, tries, labels."""
    option = row.get("option")
    if isinstance(option, dict):
        return f"{option.get('letter')}. {option.get('text')}"
    if isinstance(row.get("actions"), list):
        return counted(len(row["actions"]), "action")
    if isinstance(row.get("tries"), list):
        return counted(len(row["tries"]), "plan")
    if isinstance(row.get("labels"), list):
        return ", ".join(map(str, row["labels"]))
    return str(row.get("words") or row.get("answer") or result.get("answer") or "")


def _group(name: str, items: Sequence[Item]) -> Group:
    judged = [one for one in items if one.verdict]
    costs = [one.cost for one in items if one.cost is not None]
    times = sorted(one.count.seconds for one in items if one.count.seconds is not None)
    spent = sum((one.count.spent for one in items), Usage())
    return Group(
        name,
        len(items),
        sum(one.status == "answered" for one in items),
        sum(one.verdict == "right" for one in judged),
        len(judged),
        sum(one.count.made for one in items),
        spent.prompt_tokens + spent.completion_tokens,
        sum(costs) if len(costs) == len(items) else None,
        times[len(times) // 2] if times else None,
    )


def _drawn(items: Sequence[Item]) -> Markup:
    """The items in time, each as one bar."""
    bars = [
        Made(
            one.id,
            Entry(
                "call", one.id, status="done" if one.status == "answered" else "failed",
                cause=one.message, seconds=one.count.seconds or 0.0, started=one.count.begun,
            ),
        )
        for one in items
    ]  # fmt: skip
    line = timeline([Stage("items", counted(len(bars), "item"), tuple(bars))])
    if line is None:
        return Markup("")
    about = f"{counted(len(bars), 'item')} in {took(line.seconds)}, at most {line.most} at a time."
    return draw(line, "line", about)
