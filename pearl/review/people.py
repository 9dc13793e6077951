"""Annotators of a review: names, login tokens, browser sessions, and the plans dealt to each.

The store has only hashes of secrets, which are long and random, so that a fast hash is enough.
Each plan is judged by the same number of people, and everyone gets about the same number of plans.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count, islice
from typing import TYPE_CHECKING

from sqlalchemy import Table, bindparam, delete, insert, select, text, update

from pearl.lang.errors import InputError
from pearl.lang.library import Library
from pearl.lang.text import one_line, text_digest
from pearl.review.queue import Folders, Queue, QueuedPlan
from pearl.store.database import reading, writing
from pearl.store.store import storable
from pearl.store.tables import (
    review_people,
    review_plans,
    review_sessions,
    review_shares,
    review_verdicts,
)

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Engine

LIFE = 30 * 24 * 3600.0
"""Seconds for which a browser stays logged in."""

LONGEST_NAME = 60
"""The most characters of a person's name."""

MOST = 100
"""The most annotators of a review."""

_WITH_POWER = re.compile(r"[-+]?[\d.]+[eE][-+]?\d+")
"""A number with a letter in it, as 1e9, which is nobody's name."""


@dataclass(frozen=True, slots=True)
class Person:
    """An annotator; ``id`` is counted from 1."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Annotator:
    """An annotator, with the token if it was just made; empty if it was made before."""

    person: Person
    token: str = ""


def read_wanted(annotators: str) -> int | tuple[str, ...]:
    """Read the option ``--annotators``: how many, or their names.

    Args:
        annotators: a number, or names with commas between them.

    Raises:
        InputError: it is neither.
    """
    alone = annotators.strip()
    if "," not in alone and (_WITH_POWER.fullmatch(alone) or not any(map(str.isalpha, alone))):
        if not (alone.isdecimal() and len(alone) < 10 and 1 <= int(alone) <= MOST):
            raise InputError(f"--annotators is to be from 1 to {MOST}, or names with commas.")
        return int(alone)
    names = tuple(one_line(name) for name in annotators.split(","))
    for name in names:
        check_name(name)
    if len({name.casefold() for name in names}) < len(names) or len(names) > MOST:
        raise InputError(f"--annotators names one twice, or more than {MOST}: give each one name.")
    return names


def check_name(name: str) -> None:
    """Check that a name can be shown.

    Raises:
        InputError: it is empty, too long, or has characters that cannot be printed.
    """
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise InputError(f"A name has 1 to {LONGEST_NAME} letters: give another.")


def admit(
    connection: Connection, annotators: int | Sequence[str] | None, *, new_links: bool
) -> list[Annotator]:
    """The annotators of a review; missing ones are added, each with a token.

    Args:
        connection: the transaction that starts the review.
        annotators: how many, or their names; None for those in the store, or
            one where there are none.
        new_links: whether everyone gets a new token; old tokens, and browsers
            that logged in with them, become invalid.
    """
    people = _people(connection)
    if annotators is None:
        names: Sequence[str] = [person.name for person in people] or ["annotator 1"]
    elif isinstance(annotators, int):
        there = [person.name for person in people[:annotators]]
        fresh = (f"annotator {number}" for number in count(len(there) + 1))
        free = (name for name in fresh if name not in {old.casefold() for old in there})
        names = [*there, *islice(free, annotators - len(there))]
    else:
        names = annotators
    admitted: list[Annotator] = []
    for name in names:
        person = next((other for other in people if other.name.casefold() == name.casefold()), None)
        token = secrets.token_urlsafe(24) if new_links or person is None else ""
        hashed = text_digest(token)
        if person is None:
            person = Person(len(people) + 1, name)
            people.append(person)
            values = {"id": person.id, "name": name, "token": hashed, "added": time.time()}
            connection.execute(insert(review_people), values)
        elif token:
            where = review_people.c.id == person.id
            connection.execute(update(review_people).where(where).values(token=hashed))
            theirs = review_sessions.c.person == person.id
            connection.execute(delete(review_sessions).where(theirs))
        admitted.append(Annotator(person, token))
    return admitted


def by_token(engine: Engine, token: str) -> Person | None:
    """The annotator whose token this is; None where it is nobody's."""
    with reading(engine) as connection:
        return next(iter(_people(connection, review_people.c.token == text_digest(token))), None)


def everybody(engine: Engine) -> dict[int, Person]:
    """All annotators, by number."""
    with reading(engine) as connection:
        return {person.id: person for person in _people(connection)}


def _people(connection: Connection, *where: ColumnElement[bool]) -> list[Person]:
    """Annotators, by number."""
    query = select(review_people.c.id, review_people.c.name).where(*where)
    return [Person(*row) for row in connection.execute(query.order_by(review_people.c.id))]


def rename(connection: Connection, person: Person, name: str) -> Person:
    """Give an annotator another name.

    Raises:
        InputError: it cannot be shown, or somebody else has it.
    """
    name = storable(one_line(name))
    check_name(name)
    if name == person.name:
        return person
    others = _people(connection, review_people.c.id != person.id)
    if name.casefold() in {other.name.casefold() for other in others}:
        raise InputError(f"{name} is somebody else here: give another name.")
    where = review_people.c.id == person.id
    connection.execute(update(review_people).where(where).values(name=name))
    return Person(person.id, name)


def enter(connection: Connection, person: Person) -> str:
    """Begin a session of an annotator's browser, and return the key for its cookie."""
    key = secrets.token_urlsafe(32)
    now = time.time()
    old = review_sessions.c.started < now - LIFE
    connection.execute(delete(review_sessions).where(old))
    values = {"key": text_digest(key), "person": person.id, "started": now}
    connection.execute(insert(review_sessions), values)
    return key


def who_is(engine: Engine, key: str) -> Person | None:
    """The annotator whose session a cookie's key belongs to; None where there is none."""
    session = review_sessions.c
    theirs = (session.person == review_people.c.id, session.key == text_digest(key))
    with reading(engine) as connection:
        people = _people(connection, *theirs, session.started > time.time() - LIFE)
        return next(iter(people), None)


def leave(connection: Connection, key: str) -> None:
    """End the session of a cookie's key."""
    connection.execute(delete(review_sessions).where(review_sessions.c.key == text_digest(key)))


def form_token(key: str) -> str:
    """The token in every form, which no other site's page can know.

    Args:
        key: the key in the browser's cookie.
    """
    return hmac.new(key.encode(), b"pearl review form", hashlib.sha256).hexdigest()


def deal(
    plans: Sequence[str], people: Sequence[int], overlap: int, held: Mapping[str, Sequence[int]]
) -> dict[str, tuple[int, ...]]:
    """Deal plans out to people, the same way for the same arguments.

    Each plan goes to the people with the fewest plans; among these, to those
    who share the fewest plans, so that everyone can be compared with everyone.

    Args:
        plans: the plans' ids, in order.
        people: the people's numbers, in order.
        overlap: how many people get each plan; all, where there are fewer.
        held: the people who have a plan already, by plan; they keep it.

    Returns:
        The people who have each plan, in the order of the plans.
    """
    size = min(overlap, len(people))
    load = Counter(dict.fromkeys(people, 0))
    together: Counter[frozenset[int]] = Counter()

    def assign(person: int, others: Sequence[int]) -> None:
        load[person] += 1
        together.update(frozenset((person, other)) for other in others)

    dealt = {plan: list(held.get(plan, ())) for plan in plans}
    for chosen in dealt.values():
        for at, person in enumerate(chosen):
            assign(person, chosen[:at])
    for chosen in dealt.values():
        while len(chosen) < size and (free := set(people).difference(chosen)):

            def burden(person: int, chosen: Sequence[int] = chosen) -> tuple[int, int, int]:
                met = sum(together[frozenset((person, other))] for other in chosen)
                return load[person], met, people.index(person)

            best = min(free, key=burden)
            assign(best, chosen)
            chosen.append(best)
    return {plan: tuple(chosen) for plan, chosen in dealt.items()}


_LOCK = 7052962
"""The advisory lock with which servers that share a PostgreSQL database deal plans one by one."""


@dataclass(frozen=True)
class ReviewSession:
    """What every page needs.

    Args:
        engine: the store.
        items: the plans, in order.
        library: the actions they may call, where the library of a plan's run is not known.
        folders: the folders that may be read and written.
        people: the numbers of the annotators.
        open: whether anybody on this machine may log in as any of them.
        cookie: the name of the cookie.
    """

    engine: Engine
    items: tuple[QueuedPlan, ...]
    library: Library
    folders: Folders
    people: tuple[int, ...]
    open: bool
    cookie: str
    _turns: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def by_id(self) -> Mapping[str, QueuedPlan]:
        """The plans by id."""
        return {item.id: item for item in self.items}

    @cached_property
    def _dealt(self) -> frozenset[tuple[str, int]]:
        query = select(review_shares.c.plan, review_shares.c.person)
        with reading(self.engine) as connection:
            return frozenset((row.plan, row.person) for row in connection.execute(query))

    def share(self, person: int) -> tuple[QueuedPlan, ...]:
        """The plans that were dealt to a person at the start, in order."""
        return tuple(item for item in self.items if (item.id, person) in self._dealt)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction, which is committed when the block ends."""
        # SQLite allows one writer at a time; a lock here is fairer than polling the file.
        turn = self._turns if self.engine.dialect.name == "sqlite" else nullcontext()
        with turn, writing(self.engine) as connection:
            yield connection


def lay_out(
    engine: Engine,
    queue: Queue,
    annotators: int | Sequence[str] | None,
    overlap: int,
    *,
    new_links: bool = False,
) -> list[Annotator]:
    """Put plans and people into the store, and deal the plans out.

    Plans that were dealt before stay with their people. If the people or the
    overlap have changed, only those that were judged do.

    Args:
        engine: the store.
        queue: the plans.
        annotators: how many annotators, or their names; None for those in the store.
        overlap: how many of them judge each plan.
        new_links: whether everyone gets a new link.

    Returns:
        The annotators, each with a token if it was just made.
    """
    with writing(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        admitted = admit(connection, annotators, new_links=new_links)
        people = [annotator.person.id for annotator in admitted]
        ids = [item.id for item in queue.items]
        there = set(connection.execute(select(review_plans.c.id)).scalars())
        now = time.time()
        # The times are in the order of the queue, so that reports can sort by them.
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
        count = min(overlap, len(people))
        assigned = {person for holders in dealt.values() for person in holders}
        same = assigned == set(people) and all(len(held) == count for held in dealt.values())
        if shares := deal(ids, people, overlap, dealt if same else judged):
            gone = delete(review_shares).where(review_shares.c.plan == bindparam("p"))
            connection.execute(gone, [{"p": plan} for plan in shares])
        rows = [{"plan": plan, "person": id} for plan, holders in shares.items() for id in holders]
        if rows:
            connection.execute(insert(review_shares), rows)
    return admitted


def _pairs(connection: Connection, table: Table, ids: Sequence[str]) -> dict[str, list[int]]:
    """The people that a table has for these plans, by plan."""
    plans = set(ids)
    people: dict[str, list[int]] = {}
    query = select(table.c.plan, table.c.person).distinct().order_by(table.c.person)
    for plan, person in connection.execute(query):
        if plan in plans:
            people.setdefault(plan, []).append(person)
    return people
