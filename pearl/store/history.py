"""Reading runs back: which there are, what they did, what came of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import and_, case, func, or_, select

from pearl.lang.source import InputError
from pearl.models.base import Usage
from pearl.run.calls import Entry
from pearl.store.database import is_dead, reading
from pearl.store.tables import entries, replies, rows, runs

if TYPE_CHECKING:
    from sqlalchemy import Engine, Row


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as the store has it.

    Args:
        name: its name.
        kind: the command that made it, as ``ask`` or ``batch``.
        fingerprint: by which the same work is known again.
        scope: where its replies are kept.
        started: seconds since 1970.
        ended: likewise; None where it stopped on the way, or still runs.
        alive: whether the process that ran it last still does.
        head: what was run on what.
    """

    name: str
    kind: str
    fingerprint: str
    scope: str
    started: float
    ended: float | None
    alive: bool
    head: dict[str, Any]

    @property
    def has_rows(self) -> bool:
        """Whether it has many tasks, each with a row and a journal of its own."""
        return "count" in self.head


@dataclass(frozen=True, slots=True)
class Totals:
    """What a run's calls came to.

    Args:
        made: calls that were sent and answered.
        kept: calls that needed no sending.
        failed: tries that got no usable answer.
        spent: tokens of everything that was sent.
        saved: tokens that kept replies would have taken.
        seconds: the answered calls' times, added up.
    """

    made: int
    kept: int
    failed: int
    spent: Usage
    saved: Usage
    seconds: float


def list_runs(engine: Engine, now: float, limit: int | None = None) -> list[RunRow]:
    """The runs, the last one first."""
    query = select(runs).order_by(runs.c.started.desc(), runs.c.id.desc()).limit(limit)
    with reading(engine) as connection:
        return [_run(row, now) for row in connection.execute(query)]


def latest(engine: Engine, fingerprint: str, now: float) -> RunRow | None:
    """The last run of this work that no living process is at."""
    query = select(runs).where(runs.c.fingerprint == fingerprint).order_by(runs.c.started.desc())
    with reading(engine) as connection:
        found = (_run(row, now) for row in connection.execute(query))
        return next((run for run in found if run.ended is not None or not run.alive), None)


def find_run(engine: Engine, name: str, place: str, now: float) -> RunRow:
    """A run by its name.

    Args:
        engine: the database.
        name: the name, the start of it, or ``last``.
        place: the store, as a person wrote it.
        now: seconds since 1970.

    Raises:
        InputError: no such run, or several.
    """
    known = list_runs(engine, now)
    if not known:
        raise InputError(f"There are no runs in {place}: make one with pearl ask, run or batch.")
    exact = [run for run in known if run.name == name]
    found = known[:1] if name == "last" else exact or [
        run for run in known if name and run.name.startswith(name)
    ]  # fmt: skip
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(f"No run is named {name}: the last one is {known[0].name}.")
    names = ", ".join(run.name for run in found[:3])
    raise InputError(f"{name} names several runs ({names} …): write more of it.")


def read_entries(engine: Engine, run: RunRow, item: str | None = "") -> Iterator[Entry]:
    """A run's journal, in order.

    Args:
        engine: the database.
        run: which.
        item: the question's id in a batch; None for all of them.
    """
    # A call without a reply must not fall out of the journal.
    kept = and_(replies.c.key == entries.c.call_key, replies.c.scope == run.scope)
    query = (
        select(entries, replies.c.text)
        .outerjoin(replies, kept)
        .where(entries.c.run == run.name)
        .order_by(entries.c.id)
    )
    if item is not None:
        query = query.where(entries.c.item == item)
    with reading(engine) as connection:
        for row in connection.execution_options(yield_per=500).execute(query):
            yield _entry(row)


def since_last_start(journal: list[Entry]) -> list[Entry]:
    """The entries of the last time that a question was begun, where it was begun several times."""
    starts = [at for at, entry in enumerate(journal) if entry.path == "run"]
    return journal[starts[-1] :] if starts else journal


def totals(engine: Engine, run: str, item: str | None = None) -> Totals:
    """What a run's calls came to, or those of one of its questions."""
    done = entries.c.status == "done"
    made, saved = and_(done, ~entries.c.kept), and_(done, entries.c.kept)
    failed = entries.c.status == "failed"
    columns = [_count(made), _count(saved), _count(failed)]
    tokens = (entries.c.prompt_tokens, entries.c.completion_tokens, entries.c.cached_tokens)
    columns += [_sum(column, or_(made, failed)) for column in tokens]
    columns += [_sum(column, saved) for column in tokens]
    columns.append(_sum(entries.c.seconds, made))
    query = select(*columns).where(entries.c.run == run, entries.c.kind == "call")
    if item is not None:
        query = query.where(entries.c.item == item)
    with reading(engine) as connection:
        found = connection.execute(query).one()
    whole = [int(number) for number in found[:9]]
    return Totals(
        whole[0], whole[1], whole[2], Usage(*whole[3:6]), Usage(*whole[6:9]), float(found[9])
    )


def mean_seconds(engine: Engine, model: str) -> float | None:
    """How long a model's calls took on average, or None where none was made."""
    made = and_(entries.c.kind == "call", entries.c.status == "done", ~entries.c.kept)
    theirs = and_(replies.c.key == entries.c.call_key, replies.c.model == model)
    query = select(func.avg(entries.c.seconds)).join(replies, theirs).where(made)
    with reading(engine) as connection:
        found = connection.execute(query).scalar()
    return None if found is None else float(found)


def read_rows(engine: Engine, run: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """A batch's results in the order of its questions: the question's id, and the row."""
    query = select(rows).where(rows.c.run == run).order_by(rows.c.position)
    with reading(engine) as connection:
        for row in connection.execution_options(yield_per=200).execute(query):
            yield row.id, json.loads(row.result)


class RowKey(NamedTuple):
    """What a batch has of a question: the hash of what was asked, its place, how it ended."""

    key: str
    position: int
    status: str


def read_row_keys(engine: Engine, run: str) -> dict[str, RowKey]:
    """What a batch has, by the questions' ids."""
    query = select(rows.c.id, rows.c.row_key, rows.c.position, rows.c.status)
    with reading(engine) as connection:
        found = connection.execute(query.where(rows.c.run == run))
        return {row.id: RowKey(row.row_key, row.position, row.status) for row in found}


def _run(row: Row[Any], now: float) -> RunRow:
    alive = row.ended is None and not is_dead(row.owner, row.seen, now)
    return RunRow(
        row.id, row.kind, row.fingerprint, row.scope, row.started, row.ended, alive,
        json.loads(row.head),
    )  # fmt: skip


def _entry(row: Row[Any]) -> Entry:
    value = row.text if row.kind == "call" else json.loads(row.value)
    return Entry(
        row.kind, row.path, value if row.status == "done" else None, row.call_key, row.attempt,
        row.status, row.cause,
        Usage(row.prompt_tokens, row.completion_tokens, row.cached_tokens), row.seconds, row.kept,
        row.started,
    )  # fmt: skip


def _count(where: Any) -> Any:  # noqa: ANN401 - SQLAlchemy's expressions
    return func.coalesce(func.sum(case((where, 1), else_=0)), 0)


def _sum(column: Any, where: Any) -> Any:  # noqa: ANN401 - SQLAlchemy's expressions
    return func.coalesce(func.sum(case((where, column), else_=0)), 0)
