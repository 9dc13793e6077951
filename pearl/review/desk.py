"""What a review has on its desk while the server runs, and how it is laid out at the start."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from sqlalchemy import Table, bindparam, delete, insert, select, text

from pearl.library import Library
from pearl.review.assignment import deal
from pearl.review.folders import Folders
from pearl.review.people import Admitted, admit
from pearl.review.queue import Item, Queue
from pearl.store.database import reading
from pearl.store.tables import review_plans, review_shares, review_verdicts

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

_LOCK = 7052962
"""The number under which servers that share a PostgreSQL take turns at dealing plans out."""


@dataclass(frozen=True)
class Desk:
    """What every page needs.

    Args:
        engine: the store.
        items: the plans, in order.
        library: the actions they may call.
        folders: what may be read and written.
        people: the numbers of those who review.
        open: whether anybody on this machine may come in as any of them.
        cookie: the name of the browsers' cookie.
    """

    engine: Engine
    items: tuple[Item, ...]
    library: Library
    folders: Folders
    people: tuple[int, ...]
    open: bool
    cookie: str
    _turns: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def by_id(self) -> Mapping[str, Item]:
        """The plans by id."""
        return MappingProxyType({item.id: item for item in self.items})

    @cached_property
    def _shares(self) -> Mapping[int, tuple[Item, ...]]:
        query = select(review_shares.c.plan, review_shares.c.person)
        with reading(self.engine) as connection:
            dealt = {(row.plan, row.person) for row in connection.execute(query)}
        return MappingProxyType(
            {
                person: tuple(item for item in self.items if (item.id, person) in dealt)
                for person in self.people
            }
        )

    def share(self, person: int) -> tuple[Item, ...]:
        """The plans that somebody is asked to judge, in order, as they were dealt at the start."""
        return self._shares.get(person, ())

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction; what it writes is safe when the block has ended."""
        if self.engine.dialect.name != "sqlite":
            with self.engine.begin() as connection:
                yield connection
            return
        # One writer at a time is all a file takes; a queue here is fairer than asking it again
        # and again whether it is free.
        with self._turns, self.engine.begin() as connection:
            yield connection


@dataclass(frozen=True)
class Wanted:
    """Who is to review.

    Args:
        annotators: how many, or their names; None for those who are there.
        overlap: how many people judge each plan.
        new_links: whether everybody gets a new link.
    """

    annotators: int | Sequence[str] | None
    overlap: int
    new_links: bool = False


def lay_out(engine: Engine, queue: Queue, wanted: Wanted) -> list[Admitted]:
    """Put plans and people into the store, and deal the plans out.

    What was dealt out before stays, unless there are other people now or
    another overlap: then only what was judged stays where it is.

    Args:
        engine: the store.
        queue: the plans.
        wanted: who is to review.

    Returns:
        The annotators, each with a token where it was made just now.
    """
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        admitted = admit(connection, wanted.annotators, new_links=wanted.new_links)
        people = [one.person.id for one in admitted]
        ids = [item.id for item in queue.items]
        _put_plans(connection, queue.items)
        dealt = _pairs(connection, review_shares, ids)
        judged = _pairs(connection, review_verdicts, ids)
        count = min(wanted.overlap, len(people))
        known = {person for found in dealt.values() for person in found}
        same = known <= set(people) <= known and all(
            len(found) == count for found in dealt.values()
        )
        shares = deal(ids, people, wanted.overlap, dealt if same else judged)
        _put_shares(connection, shares)
    return admitted


def _put_plans(connection: Connection, items: Sequence[Item]) -> None:
    there = set(connection.execute(select(review_plans.c.id)).scalars())
    now = time.time()
    rows = [
        {"id": item.id, "kind": item.kind, "name": item.name, "question": item.question,
         # In the order of the queue, to whoever sorts by it.
         "text": item.text, "added": now + at / 1e6}
        for at, item in enumerate(items) if item.id not in there
    ]  # fmt: skip
    if rows:
        connection.execute(insert(review_plans), rows)


def _pairs(connection: Connection, table: Table, ids: Sequence[str]) -> dict[str, list[int]]:
    """Who stands beside which plan in a table."""
    wanted = set(ids)
    found: dict[str, list[int]] = {}
    query = select(table.c.plan, table.c.person).distinct().order_by(table.c.person)
    for plan, person in connection.execute(query):
        if plan in wanted:
            found.setdefault(plan, []).append(person)
    return found


def _put_shares(connection: Connection, shares: Mapping[str, Sequence[int]]) -> None:
    gone = delete(review_shares).where(review_shares.c.plan == bindparam("p"))
    if shares:
        connection.execute(gone, [{"p": plan} for plan in shares])
    rows = [
        {"plan": plan, "person": person} for plan, people in shares.items() for person in people
    ]
    if rows:
        connection.execute(insert(review_shares), rows)
