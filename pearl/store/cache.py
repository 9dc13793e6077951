"""The cache as a person keeps it: how large, what to let go, what to hand on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Text, cast, delete, func, select, text

from pearl.store.database import reading
from pearl.store.tables import entries, leases, ledger, replies, rows, runs

if TYPE_CHECKING:
    from sqlalchemy import Engine


@dataclass(frozen=True, slots=True)
class ModelStats:
    """What the cache holds of one model."""

    model: str
    replies: int
    characters: int
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Stats:
    """What the store holds.

    Args:
        models: the cache, by model.
        runs: how many runs.
        entries: how many lines their journals have.
        saved: calls that the cache has answered so far.
        size: bytes of the database on the disk.
    """

    models: tuple[ModelStats, ...]
    runs: int
    entries: int
    saved: int
    size: int


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was let go."""

    runs: int
    replies: int


def stats(engine: Engine) -> Stats:
    """Count what the store holds."""
    by_model = (
        select(
            replies.c.model,
            func.count(),
            func.sum(func.length(replies.c.text)),
            func.sum(replies.c.prompt_tokens),
            func.sum(replies.c.completion_tokens),
        )
        .group_by(replies.c.model)
        .order_by(replies.c.model)
    )
    with reading(engine) as connection:
        models = tuple(
            ModelStats(row[0], *(int(number or 0) for number in row[1:]))
            for row in connection.execute(by_model)
        )
        known, lines = (
            int(connection.execute(select(func.count()).select_from(table)).scalar_one())
            for table in (runs, entries)
        )
        saved = connection.execute(
            select(func.count()).where(entries.c.kept, entries.c.status == "done")
        ).scalar_one()
        if connection.dialect.name == "postgresql":
            size = connection.execute(text("SELECT pg_database_size(current_database())"))
        else:
            size = connection.execute(
                text("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()")
            )
        return Stats(models, known, lines, int(saved), int(size.scalar_one()))


def prune(engine: Engine, before: float) -> Pruned:
    """Let go of runs that were last alive before a moment, and of replies that no run is left for.

    Args:
        engine: the database.
        before: seconds since 1970.
    """
    old = select(runs.c.id).where(runs.c.seen < before)
    with engine.begin() as connection:
        for table in (entries, rows, ledger):
            connection.execute(delete(table).where(table.c.run.in_(old)))
        gone = connection.execute(delete(runs).where(runs.c.seen < before)).rowcount
        # A journal that is left needs the texts of its calls.
        needed = select(entries.c.call_key)
        unused = replies.c.key.not_in(needed)
        let_go = connection.execute(
            delete(replies).where(replies.c.created < before, unused)
        ).rowcount
        # Left behind by processes that died, for calls that nobody has wanted since.
        connection.execute(delete(leases).where(leases.c.expires < before))
    if engine.dialect.name == "sqlite":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.connection.cursor().execute("VACUUM")
    return Pruned(gone, let_go)


def export(engine: Engine, run: str = "") -> Iterator[dict[str, Any]]:
    """The replies, as ``recorded:FILE`` reads them: all, or those of one run.

    Args:
        engine: the database.
        run: a run's name; empty for the whole cache.
    """
    query = select(replies).order_by(replies.c.created, replies.c.key)
    if run:
        scope = select(runs.c.scope).where(runs.c.id == run).scalar_subquery()
        used = select(entries.c.call_key).where(entries.c.run == run, entries.c.kind == "call")
        query = query.where(replies.c.key.in_(used), replies.c.scope == cast(scope, Text))
    with reading(engine) as connection:
        for row in connection.execution_options(yield_per=200).execute(query):
            yield {
                "key": row.key,
                "text": row.text,
                "complete": row.complete,
                "model": row.model,
                "identity": row.identity,
                "usage": {
                    "prompt_tokens": row.prompt_tokens,
                    "completion_tokens": row.completion_tokens,
                    "cached_tokens": row.cached_tokens,
                },
            }
