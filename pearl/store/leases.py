"""Which process makes a call: a lease on its key, in the store, for as long as it is made.

So no call is made twice, whoever asks it: a process that finds a lease waits, and one that dies
leaves a lease that another may take over.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import BindParameter, Insert, Select, and_, bindparam, delete, select, update

from pearl.models.base import Reply, Usage
from pearl.store.database import is_dead
from pearl.store.statements import insert_into, params, read_all, write_many
from pearl.store.tables import TOKENS, leases, ledger, replies, runs

if TYPE_CHECKING:
    from sqlalchemy import Connection

LEASE = 60.0
"""Seconds for which a call under way is its maker's, unless it renews the lease."""


_AT_ONCE = 400
"""Keys in one look-up: databases limit the parameters of a statement."""


class Claim(NamedTuple):
    """A call that somebody wants made."""

    scope: str
    key: str
    owner: str


def claim(connection: Connection, changes: list[Claim]) -> list[Reply | bool]:
    """Look calls up, and take those that are neither answered nor under way.

    Each is answered with its reply, with True where the claimer is to make
    the call, or with False where another process is making it.

    The lease comes first and the look-up second: the other way round, a reply
    that another process commits in between would be missed, and paid again.
    """
    now = time.time()
    claims = dict(sorted({(claim.scope, claim.key): claim for claim in changes}.items()))
    fresh = [{**claim._asdict(), "expires": now + LEASE} for claim in claims.values()]
    all_new = write_many(connection, _leasing(connection.dialect.name), fresh) == len(fresh)
    answered: dict[tuple[str, str], Reply] = {}
    for scope, keys in _by_scope(claims):
        values = {"scope": scope, **{f"k{number}": key for number, key in enumerate(keys)}}
        for key, text, *tokens in read_all(connection, _looking_up(len(keys)), values):
            answered[scope, key] = Reply(text, Usage(*tokens), kept=True)
    missing = [place for place in claims if place not in answered]
    # Who holds a call, and until when.
    held: dict[tuple[str, str], tuple[str, float]] = {}
    for scope, keys in _by_scope([] if all_new else missing):
        where = and_(leases.c.scope == scope, leases.c.key.in_(keys))
        for row in connection.execute(select(leases).where(where)):
            held[scope, row.key] = (row.owner, row.expires)
    verdicts: dict[tuple[str, str], Reply | bool] = dict(answered)
    for place in missing:
        # On a server another process may have kept the reply, or given up, since the look-up
        # above: then no lease is there, and the claimer looks again.
        owner, expires = held.get(place, ("", 0.0))
        verdicts[place] = all_new or (
            place in held
            and (
                owner == claims[place].owner
                or _take_over(connection, claims[place], owner, expires, now)
            )
        )
    if answered:
        give_up(connection, [claims[place] for place in answered])
    return [verdicts[claim.scope, claim.key] for claim in changes]


def _take_over(connection: Connection, call: Claim, owner: str, expires: float, now: float) -> bool:
    """Take a dead process's lease, unless another one was faster."""
    if now < expires and not is_dead(owner, expires - LEASE, now):
        return False
    where = and_(leases.c.scope == call.scope, leases.c.key == call.key, leases.c.owner == owner)
    changed = connection.execute(
        update(leases).where(where).values(owner=call.owner, expires=now + LEASE)
    )
    return changed.rowcount == 1


@cache
def _leasing(dialect: str) -> Insert:
    """The statement that takes leases; one that is there stays as it is."""
    statement: Insert = insert_into(leases, dialect).values(params(leases)).on_conflict_do_nothing()
    return statement


def _by_scope(places: Iterable[tuple[str, str]]) -> Iterator[tuple[str, list[str]]]:
    """Scopes with their keys, some at a time."""
    scopes: dict[str, list[str]] = {}
    for scope, key in places:
        scopes.setdefault(scope, []).append(key)
    for scope, keys in scopes.items():
        for at in range(0, len(keys), _AT_ONCE):
            yield scope, keys[at : at + _AT_ONCE]


@lru_cache(maxsize=128)
def _looking_up(count: int) -> Select[Any]:
    """Look up so many calls; a reply that was cut off helps nobody, and is asked for again."""
    keys: list[BindParameter[str]] = [bindparam(f"k{number}") for number in range(count)]
    tokens = [replies.c[name] for name in TOKENS]
    where = and_(replies.c.scope == bindparam("scope"), replies.c.key.in_(keys), replies.c.complete)
    return select(replies.c.key, replies.c.text, *tokens).where(where)


def give_up(connection: Connection, claims: list[Claim]) -> None:
    """Give up leases, as far as they are still the claimers' own."""
    where = and_(
        leases.c.scope == bindparam("s"),
        leases.c.key == bindparam("k"),
        leases.c.owner == bindparam("o"),
    )
    given_up = [{"s": claim.scope, "k": claim.key, "o": claim.owner} for claim in claims]
    connection.execute(delete(leases).where(where), given_up)


def renew(connection: Connection, changes: list[str]) -> None:
    """A sign of life of some owners: their leases and runs hold on."""
    now = time.time()
    owners = list(dict.fromkeys(changes))
    connection.execute(update(leases).where(leases.c.owner.in_(owners)).values(expires=now + LEASE))
    connection.execute(update(runs).where(runs.c.owner.in_(owners)).values(seen=now))
    connection.execute(update(ledger).where(ledger.c.owner.in_(owners)).values(seen=now))


def forget_owner(connection: Connection, changes: list[str]) -> None:
    """Delete the leases of owners that end, and leave their runs without an owner."""
    connection.execute(delete(leases).where(leases.c.owner.in_(changes)))
    connection.execute(update(runs).where(runs.c.owner.in_(changes)).values(owner=""))
