"""Statistics of a store, deleting old runs and replies, and exporting replies."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Engine, Text, and_, cast, delete, func, select, text

from pearl.store.database import is_dead, reading, usable, writing
from pearl.store.tables import entries, leases, ledger, replies, rows, runs, tags
from pearl.store.totals import usage_of


@dataclass(frozen=True, slots=True)
class ModelStats:
    """A model's replies in the cache: their number, characters, and the tokens of their calls."""

    model: str
    replies: int
    characters: int
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Stats:
    """What the store holds.

    Args:
        models: the cached replies of each model.
        runs: the number of runs.
        entries: the number of entries in their journals.
        saved: the number of calls that the cache has answered so far.
        size: the size of the database in bytes.
    """

    models: tuple[ModelStats, ...]
    runs: int
    entries: int
    saved: int
    size: int


def stats(engine: Engine) -> Stats:
    """Count what the store holds."""
    sizes = (func.length(replies.c.text), replies.c.prompt_tokens, replies.c.completion_tokens)
    by_model = select(replies.c.model, func.count(), *map(func.sum, sizes))
    by_model = by_model.group_by(replies.c.model).order_by(replies.c.model)
    with reading(engine) as connection:
        models = tuple(
            ModelStats(row[0], *(int(number or 0) for number in row[1:]))
            for row in connection.execute(by_model)
        )
        journals, lines = (
            int(connection.execute(select(func.count()).select_from(table)).scalar_one())
            for table in (runs, entries)
        )
        answered = select(func.count()).where(entries.c.kept, entries.c.status == "done")
        bytes_of = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
        if connection.dialect.name == "postgresql":
            bytes_of = "SELECT pg_database_size(current_database())"
        saved = int(connection.execute(answered).scalar_one())
        size = int(connection.execute(text(bytes_of)).scalar_one())
        return Stats(models, journals, lines, saved, size)


def prune(engine: Engine, before: float) -> tuple[int, int]:
    """Delete runs that were last active before a time, in seconds since 1970, and older replies
    that no remaining run uses. Runs of living processes stay.

    Returns:
        The numbers of runs and of replies that were deleted.
    """
    now = time.time()
    times = (runs.c.started, runs.c.seen)
    going = select(runs.c.id, runs.c.owner, *times).where(runs.c.ended.is_(None))
    with writing(engine) as connection:
        alive = [row for row in connection.execute(going) if not is_dead(row.owner, row.seen, now)]
        past = and_(runs.c.seen < before, runs.c.id.not_in([row.id for row in alive]))
        old = select(runs.c.id).where(past)
        for table in (entries, rows, ledger, tags):
            connection.execute(delete(table).where(table.c.run.in_(old)))
        gone = connection.execute(delete(runs).where(past)).rowcount
        # The journals that are left need their replies, and running ones also those of calls that
        # they have not recorded yet.
        made = min([before, *(row.started for row in alive)])
        unused = replies.c.key.not_in(select(entries.c.call_key))
        old_replies = delete(replies).where(replies.c.created < made, unused)
        dropped = connection.execute(old_replies).rowcount
        # Leases of processes that died, on calls that no process has made since.
        connection.execute(delete(leases).where(leases.c.expires < before))
    if engine.dialect.name == "sqlite":
        whole = engine.execution_options(isolation_level="AUTOCOMMIT")
        with usable(engine), whole.connect() as connection:
            connection.connection.cursor().execute("VACUUM")
    return gone, dropped


_EXPORTED = ("key", "text", "complete", "model", "identity")


def export(engine: Engine, run: str = "") -> Iterator[dict[str, Any]]:
    """The replies of a run, or of all runs, as objects that ``recorded:FILE`` reads."""
    query = select(replies).order_by(replies.c.created, replies.c.key)
    if run:
        scope = select(runs.c.scope).where(runs.c.id == run).scalar_subquery()
        used = select(entries.c.call_key).where(entries.c.run == run, entries.c.kind == "call")
        query = query.where(replies.c.key.in_(used), replies.c.scope == cast(scope, Text))
    with reading(engine) as connection:
        for row in connection.execution_options(yield_per=200).execute(query):
            yield {
                **{name: getattr(row, name) for name in _EXPORTED},
                "usage": asdict(usage_of(row)),
            }
