"""Totals of calls: their number, tokens, cost and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Column, ColumnElement, Engine, Row, and_, case, func, or_, select, true

from pearl.models.base import NOTHING, Usage
from pearl.models.tokens import FREE, Prices, dollars
from pearl.store.database import reading, starts_with
from pearl.store.tables import TOKENS, entries, replies, runs

LATELY = 10_000
"""The number of the latest journal entries by which a model's speed is measured."""


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of a run's calls.

    Args:
        made: the number of calls that were sent and answered.
        kept: the number of calls that were not sent, as their replies were cached.
        failed: the number of tries that got no usable answer.
        spent: the tokens of everything that was sent.
        saved: the tokens that cached replies would have taken.
        seconds: the total time of the answered calls.
        models: the totals of each model, where the run has several.
    """

    made: int = 0
    kept: int = 0
    failed: int = 0
    spent: Usage = NOTHING
    saved: Usage = NOTHING
    seconds: float = 0.0
    models: Mapping[str, Totals] = field(default_factory=dict)

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.made + other.made,
            self.kept + other.kept,
            self.failed + other.failed,
            self.spent + other.spent,
            self.saved + other.saved,
            self.seconds + other.seconds,
            {
                name: self.models.get(name, Totals()) + other.models.get(name, Totals())
                for name in {**self.models, **other.models}
            },
        )

    def by_model(self, name: str) -> dict[str, Totals]:
        """The totals of each model; ``name`` is the model's, where the run has only one."""
        return {model or name: each for model, each in self.models.items()} or {name: self}

    def spent_by(self, name: str) -> dict[str, Usage]:
        """The tokens spent, by model, as `by_model` takes its name."""
        return {model: each.spent for model, each in self.by_model(name).items()}

    def cost(self, prices: Prices, name: str) -> int | None:
        """The cost of what was sent, in millionths of a dollar; None where a price is not known, or
        an endpoint whose calls have a price does not report their tokens.

        Args:
            prices: what tokens cost.
            name: the name of the run's model, where it has only one.
        """
        models = self.by_model(name)
        for model, each in models.items():
            if each.made and not each.spent.total and prices.get(model) not in (None, FREE):
                return None
        sent = {model: each.spent for model, each in models.items() if each.made or each.failed}
        return prices.cost(sent or {name: Usage()})

    def cost_in_words(self, prices: Prices, name: str) -> str:
        """The cost in words, or why it is not known."""
        cost = self.cost(prices, name)
        if cost is not None:
            return dollars(cost)
        every = self.models.values() or (self,)
        if not all(each.spent.is_reported(each.made) for each in every):
            return "not known: the endpoint reports no tokens"
        return "not known: no price for this model (PEARL_PRICES may name a file that has one)"


def usage_of(row: Row[Any]) -> Usage:
    """The tokens of a call's row."""
    return Usage(*(getattr(row, name) for name in TOKENS))


def last_entry(engine: Engine) -> int:
    """The number of the newest entry of all journals; 0 where there is none."""
    with reading(engine) as connection:
        return connection.execute(select(func.max(entries.c.id))).scalar() or 0


def totals(
    engine: Engine, run: str, item: str | None = None, method: str = "", after: int = 0
) -> Totals:
    """The totals of a run's calls: of all, or only those of a question ``item``, of a ``method``,
    or after the entry with a number."""
    query = select(*_sums(), entries.c.model)
    query = query.group_by(entries.c.model).order_by(entries.c.model)
    query = query.where(entries.c.run == run, entries.c.kind == "call")
    query = query.where(of_method(engine, entries.c.item, method))
    if item is not None:
        query = query.where(entries.c.item == item)
    if after:
        query = query.where(entries.c.id > after)
    with reading(engine) as connection:
        by_model = {model: _totals(sums) for *sums, model in connection.execute(query)}
    every = sum(by_model.values(), Totals())
    return replace(every, models=by_model) if any(by_model) else every


def totals_of_items(
    engine: Engine, run: str, items: Sequence[str] | None = None
) -> dict[str, tuple[Totals, float | None]]:
    """The totals of the calls of each item of a job, or of some by their ids, and the seconds from
    its last start to its last entry; None where it has none."""
    columns = entries.c
    query = (
        select(
            *_sums(),
            columns.item,
            columns.model,
            func.max(case((columns.path == "run", columns.started))),
            func.max(columns.started + columns.seconds),
        )
        .where(columns.run == run, true() if items is None else columns.item.in_(items))
        .group_by(columns.item, columns.model)
    )
    models: dict[str, dict[str, Totals]] = {}
    begun: dict[str, float] = {}
    ended: dict[str, float] = {}
    with reading(engine) as connection:
        for *sums, item, model, start, end in connection.execute(query):
            own, calls = models.setdefault(item, {}), _totals(sums)
            # Entries that are no calls have no model.
            if calls.made + calls.kept + calls.failed:
                own[model] = calls
            if start is not None:
                begun[item] = max(start, begun.get(item, start))
            if end is not None:
                ended[item] = max(end, ended.get(item, end))
    counts = {}
    for item, own in models.items():
        timed = item in begun and item in ended
        seconds = max(0.0, ended[item] - begun[item]) if timed else None
        counts[item] = (replace(sum(own.values(), Totals()), models=own), seconds)
    return counts


def _sums() -> list[ColumnElement[Any]]:
    """The columns of a query over entries that `_totals` reads."""
    call, kept = entries.c.kind == "call", entries.c.kept
    made = and_(call, entries.c.status == "done", ~kept)
    saved = and_(call, entries.c.status == "done", kept)
    failed = and_(call, entries.c.status == "failed", ~kept)
    tokens = [entries.c[name] for name in TOKENS]
    summed: list[tuple[Any, Any]] = [(1, made), (1, saved), (1, failed)]
    summed += [(column, or_(made, failed)) for column in tokens]
    summed += [(column, saved) for column in tokens]
    summed.append((entries.c.seconds, made))
    return [func.coalesce(func.sum(case((where, column), else_=0)), 0) for column, where in summed]


def _totals(sums: Sequence[float]) -> Totals:
    """What the columns of `_sums` come to."""
    made, kept, failed, *used = map(int, sums[:-1])
    return Totals(made, kept, failed, Usage(*used[:3]), Usage(*used[3:]), float(sums[-1]))


def mean_seconds(engine: Engine, model: str, *, alone: bool = False) -> float | None:
    """The mean time of a model's latest calls in seconds, or None where there are none.

    Args:
        engine: the store's database.
        model: the name of the model.
        alone: whether it makes one call at a time; then the time that a call waits for others does
            not count.
    """
    lately = entries.c.id > select(func.max(entries.c.id)).scalar_subquery() - LATELY
    recent = and_(entries.c.kind == "call", entries.c.status == "done", ~entries.c.kept, lately)
    reply = and_(replies.c.scope == runs.c.scope, replies.c.key == entries.c.call_key)
    columns = (entries.c.started, entries.c.seconds) if alone else (func.avg(entries.c.seconds),)
    query = select(*columns).select_from(entries)
    query = query.join(runs, runs.c.id == entries.c.run).join(replies, reply)
    query = query.where(recent, replies.c.model == model)
    with reading(engine) as connection:
        rows = connection.execute(query).all()
    if not alone:
        return None if rows[0][0] is None else float(rows[0][0])
    taken: list[float] = []
    free = 0.0
    for end, seconds in sorted((start + took, took) for start, took in rows if start is not None):
        taken.append(end - max(end - seconds, free))
        free = end
    return sum(taken) / len(taken) if taken else None


def of_method(engine: Engine, item: Column[str], method: str) -> ColumnElement[bool]:
    """A condition that an item is of a method, with whose name its id begins; true for no name."""
    return starts_with(engine, item, f"{method}/") if method else true()
