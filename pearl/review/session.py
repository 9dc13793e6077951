"""What a review has while its server runs, and who judges which plan.

So many people judge a plan, and everybody about as many plans.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from sqlalchemy import Table, bindparam, delete, insert, select, text

from pearl.lang.library import Library
from pearl.review.folders import Folders
from pearl.review.people import Admitted, admit
from pearl.review.queue import Item, Queue
from pearl.store.database import reading
from pearl.store.tables import review_plans, review_shares, review_verdicts

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine


def deal(
    plans: Sequence[str],
    people: Sequence[int],
    overlap: int,
    kept: Mapping[str, Sequence[int]],
) -> dict[str, tuple[int, ...]]:
    """Deal plans out to people. The same question has the same answer.

    Each plan goes to those who have the fewest; among these to those who have
    been together the least, so that everybody can be compared with everybody.

    Args:
        plans: their ids, in order.
        people: their numbers, in order.
        overlap: how many people a plan is to have; all, where there are fewer.
        kept: who has a plan already, by plan; they keep it.

    Returns:
        Who has each plan, in the order of the plans.
    """
    wanted = min(overlap, len(people))
    load = Counter(dict.fromkeys(people, 0))
    together: Counter[frozenset[int]] = Counter()

    def assign(person: int, others: Sequence[int]) -> None:
        load[person] += 1
        together.update(frozenset((person, other)) for other in others)

    dealt = {plan: list(kept.get(plan, ())) for plan in plans}
    for chosen in dealt.values():
        for at, person in enumerate(chosen):
            assign(person, chosen[:at])
    for chosen in dealt.values():
        while len(chosen) < wanted and (free := [one for one in people if one not in chosen]):

            def burden(person: int, chosen: Sequence[int] = chosen) -> tuple[int, int, int]:
                met = sum(together[frozenset((person, other))] for other in chosen)
                return load[person], met, people.index(person)

            best = min(free, key=burden)
            assign(best, chosen)
            chosen.append(best)
    return {plan: tuple(chosen) for plan, chosen in dealt.items()}


_LOCK = 7052962
"""The number under which servers that share a PostgreSQL take turns at dealing plans out."""


@dataclass(frozen=True)
class ReviewSession:
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
        return {item.id: item for item in self.items}

    @cached_property
    def _dealt(self) -> frozenset[tuple[str, int]]:
        query = select(review_shares.c.plan, review_shares.c.person)
        with reading(self.engine) as connection:
            return frozenset((row.plan, row.person) for row in connection.execute(query))

    def share(self, person: int) -> tuple[Item, ...]:
        """The plans that somebody is asked to judge, in order, as they were dealt at the start."""
        return tuple(item for item in self.items if (item.id, person) in self._dealt)

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
        there = set(connection.execute(select(review_plans.c.id)).scalars())
        now = time.time()
        # In the order of the queue, to whoever sorts by it.
        plans = [
            {name: getattr(item, name) for name in ("id", "kind", "name", "question", "text")}
            | {"added": now + at / 1e6}
            for at, item in enumerate(queue.items)
            if item.id not in there
        ]
        if plans:
            connection.execute(insert(review_plans), plans)
        dealt = _pairs(connection, review_shares, ids)
        judged = _pairs(connection, review_verdicts, ids)
        count = min(wanted.overlap, len(people))
        known = {person for found in dealt.values() for person in found}
        same = known <= set(people) <= known and all(
            len(found) == count for found in dealt.values()
        )
        shares = deal(ids, people, wanted.overlap, dealt if same else judged)
        if shares:
            gone = delete(review_shares).where(review_shares.c.plan == bindparam("p"))
            connection.execute(gone, [{"p": plan} for plan in shares])
        rows = [{"plan": plan, "person": one} for plan, some in shares.items() for one in some]
        if rows:
            connection.execute(insert(review_shares), rows)
    return admitted


def _pairs(connection: Connection, table: Table, ids: Sequence[str]) -> dict[str, list[int]]:
    """Who stands beside which plan in a table."""
    wanted = set(ids)
    found: dict[str, list[int]] = {}
    query = select(table.c.plan, table.c.person).distinct().order_by(table.c.person)
    for plan, person in connection.execute(query):
        if plan in wanted:
            found.setdefault(plan, []).append(person)
    return found
