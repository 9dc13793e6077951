"""Who reviews: names, tokens that let one in, sessions of browsers.

The store has hashes of secrets, and never the secrets.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, select, update

from pearl.lang.source import InputError
from pearl.store.database import reading
from pearl.store.store import storable
from pearl.store.tables import review_people, review_sessions

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Engine

LIFE = 30 * 24 * 3600.0
"""Seconds for which a browser stays in."""

LONGEST_NAME = 60
"""Characters of a person's name."""

MOST = 100
"""Annotators of one review."""


@dataclass(frozen=True, slots=True)
class Person:
    """An annotator; ``id`` is counted from 1."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Admitted:
    """An annotator, and the token that was just made; empty where one was made before."""

    person: Person
    token: str = ""


def read_wanted(given: str) -> int | tuple[str, ...]:
    """How many annotators are wanted, or which.

    Args:
        given: a number, or names with commas between them.

    Raises:
        InputError: it is neither.
    """
    if given.strip().isdecimal():
        if not 1 <= int(given) <= MOST:
            raise InputError(f"--annotators is to be from 1 to {MOST}, or names with commas.")
        return int(given)
    names = tuple(" ".join(name.split()) for name in given.split(","))
    for name in names:
        check_name(name)
    if len({name.casefold() for name in names}) < len(names) or len(names) > MOST:
        raise InputError(f"--annotators names one twice, or more than {MOST}: give each one name.")
    return names


def check_name(name: str) -> None:
    """Make sure that a name can be shown.

    Raises:
        InputError: it cannot.
    """
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise InputError(f"A name has 1 to {LONGEST_NAME} letters: give another.")


def admit(
    connection: Connection, wanted: int | Sequence[str] | None, *, new_links: bool
) -> list[Admitted]:
    """The annotators of a review; those who are missing are made, each with a token.

    Args:
        connection: within the transaction that starts the review.
        wanted: how many, or their names; None for those who are there, and
            one where nobody is.
        new_links: whether everybody gets a new token; the old ones, and the
            browsers that came in by them, are let in no more.
    """
    known = _people(connection)
    if wanted is None:
        names: Sequence[str] = [one.name for one in known] or ["annotator 1"]
    elif isinstance(wanted, int):
        there = [one.name for one in known[:wanted]]
        fresh = (f"annotator {number}" for number in count(len(there) + 1))
        free = (name for name in fresh if name not in {one.casefold() for one in there})
        names = [*there, *islice(free, wanted - len(there))]
    else:
        names = wanted
    found: list[Admitted] = []
    for name in names:
        person = next((one for one in known if one.name.casefold() == name.casefold()), None)
        token = secrets.token_urlsafe(24) if new_links or person is None else ""
        if person is None:
            person = Person(len(known) + 1, name)
            known.append(person)
            values = {"id": person.id, "name": name, "token": hashed(token), "added": time.time()}
            connection.execute(insert(review_people), values)
        elif token:
            where = review_people.c.id == person.id
            connection.execute(update(review_people).where(where).values(token=hashed(token)))
            theirs = review_sessions.c.person == person.id
            connection.execute(delete(review_sessions).where(theirs))
        found.append(Admitted(person, token))
    return found


def by_token(engine: Engine, token: str) -> Person | None:
    """Whom a token lets in."""
    with reading(engine) as connection:
        found = _people(connection, review_people.c.token == hashed(token))
    return found[0] if found else None


def everybody(engine: Engine) -> dict[int, Person]:
    """All annotators, by number."""
    with reading(engine) as connection:
        return {one.id: one for one in _people(connection)}


def _people(connection: Connection, *where: ColumnElement[bool]) -> list[Person]:
    """Annotators, by number."""
    query = select(review_people.c.id, review_people.c.name).where(*where)
    return [Person(*row) for row in connection.execute(query.order_by(review_people.c.id))]


def rename(connection: Connection, person: Person, name: str) -> Person:
    """Give an annotator another name.

    Raises:
        InputError: it cannot be shown, or is another's.
    """
    name = storable(" ".join(name.split()))
    check_name(name)
    if name == person.name:
        return person
    others = _people(connection, review_people.c.id != person.id)
    if name.casefold() in {one.name.casefold() for one in others}:
        raise InputError(f"{name} is somebody else here: give another name.")
    where = review_people.c.id == person.id
    connection.execute(update(review_people).where(where).values(name=name))
    return Person(person.id, name)


def enter(connection: Connection, person: Person) -> str:
    """Let a browser in; what its cookie is to hold."""
    key = secrets.token_urlsafe(32)
    now = time.time()
    old = review_sessions.c.started < now - LIFE
    connection.execute(delete(review_sessions).where(old))
    values = {"key": hashed(key), "person": person.id, "started": now}
    connection.execute(insert(review_sessions), values)
    return key


def who_is(engine: Engine, key: str) -> Person | None:
    """Who is in, by a browser's cookie."""
    session = review_sessions.c
    theirs = (session.person == review_people.c.id, session.key == hashed(key))
    with reading(engine) as connection:
        found = _people(connection, *theirs, session.started > time.time() - LIFE)
    return found[0] if found else None


def leave(connection: Connection, key: str) -> None:
    """Let a browser in no more."""
    connection.execute(delete(review_sessions).where(review_sessions.c.key == hashed(key)))


def hashed(secret: str) -> str:
    """What the store keeps of a secret. It is random and long, so that one round is enough."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def form_token(key: str) -> str:
    """What every form of a browser carries, which no other page can know.

    Args:
        key: what the browser's cookie holds.
    """
    return hmac.new(key.encode(), b"pearl review form", hashlib.sha256).hexdigest()
