"""What people say of plans. Nothing is ever written over: who says it anew says it once more."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import insert, select

from pearl.lang.source import InputError
from pearl.store.database import reading
from pearl.store.store import storable
from pearl.store.tables import review_verdicts

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Row


class Choice(NamedTuple):
    """Something that can be chosen: its name in the data, its words, and its key."""

    name: str
    words: str
    key: str


CORRECT = (
    Choice("yes", "Yes", "y"),
    Choice("no", "No", "n"),
    Choice("unclear", "Cannot tell", "c"),
)
"""Whether a plan is correct, assuming that every step is carried out perfectly."""

CONFIDENCE = (1, 2, 3, 4, 5)
"""From a guess to certainty."""

CATEGORIES = (
    Choice("unnecessary", "Has unnecessary steps", "u"),
    Choice("merge", "Steps can be merged", "m"),
    Choice("missing", "Misses information", "i"),
    Choice("incorrect", "May lead to an incorrect answer", "l"),
    Choice("edit", "Needs a slight edit", "s"),
)
"""The paper's (PEARL, section 5), which do not exclude one another."""

LONGEST_WORDS = 10_000
"""Characters of free text."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one person says of one plan.

    Args:
        correct: the name of one of `CORRECT`.
        confidence: one of `CONFIDENCE`.
        categories: names of some of `CATEGORIES`, in their order.
        words: free text.
    """

    correct: str
    confidence: int
    categories: tuple[str, ...] = ()
    words: str = ""


@dataclass(frozen=True, slots=True)
class Given:
    """A verdict as it was given.

    Args:
        plan: the plan's id.
        person: the giver's number.
        verdict: what was said.
        seen: whether the giver had been shown another's before, so that it
            counts for nothing where agreement is asked for.
        time: seconds since 1970.
    """

    plan: str
    person: int
    verdict: Verdict
    seen: bool
    time: float


def read_form(form: Mapping[str, list[str]]) -> Verdict:
    """A verdict from a filled-in form.

    Raises:
        InputError: something is missing or is none of what can be chosen.
    """
    correct = (form.get("correct") or [""])[0]
    confidence = (form.get("confidence") or [""])[0]
    if correct not in {one.name for one in CORRECT}:
        raise InputError("Say whether the plan is correct: choose yes, no, or cannot tell.")
    if confidence not in map(str, CONFIDENCE):
        raise InputError("Say how confident you are: choose from 1 to 5.")
    ticked = form.get("category", [])
    if not set(ticked) <= {one.name for one in CATEGORIES}:
        raise InputError("There is no such category: choose from those on the page.")
    words = storable((form.get("words") or [""])[0].replace("\r\n", "\n").strip())
    if len(words) > LONGEST_WORDS:
        raise InputError(f"The text is longer than {LONGEST_WORDS:,} characters: shorten it.")
    categories = tuple(one.name for one in CATEGORIES if one.name in ticked)
    return Verdict(correct, int(confidence), categories, words)


def save(connection: Connection, plan: str, person: int, verdict: Verdict) -> None:
    """Add a verdict; it is safe once the transaction is committed.

    The same once more, as a second click sends it, adds nothing.
    """
    given = list(_read(connection, (plan,)))
    own = [one for one in given if one.person == person]
    if own and own[-1].verdict == verdict:
        return
    seen = bool(own) and len(own) < len(given)
    row = {
        "plan": plan,
        "person": person,
        "correct": verdict.correct,
        "confidence": verdict.confidence,
        "categories": json.dumps(verdict.categories),
        "words": verdict.words,
        "seen": seen,
        "given": time.time(),
    }
    connection.execute(insert(review_verdicts), row)


def read_verdicts(engine: Engine, plans: Iterable[str] | None = None) -> list[Given]:
    """Verdicts in the order in which they were given.

    Args:
        engine: the store.
        plans: of which plans; None for all.
    """
    with reading(engine) as connection:
        return list(_read(connection, None if plans is None else tuple(plans)))


def of_person(engine: Engine, person: int) -> dict[str, Verdict]:
    """The last verdict of a person on each plan."""
    query = (
        select(review_verdicts)
        .where(review_verdicts.c.person == person)
        .order_by(review_verdicts.c.id)
    )
    with reading(engine) as connection:
        return {row.plan: _given(row).verdict for row in connection.execute(query)}


def last(given: Iterable[Given]) -> dict[tuple[str, int], Given]:
    """What each person said last of each plan."""
    return {(one.plan, one.person): one for one in given}


def unswayed(given: Iterable[Given]) -> dict[tuple[str, int], Given]:
    """What each person said last of each plan before another's verdict was shown."""
    return {(one.plan, one.person): one for one in given if not one.seen}


_AT_ONCE = 400


def _read(connection: Connection, plans: tuple[str, ...] | None) -> Iterable[Given]:
    query = select(review_verdicts).order_by(review_verdicts.c.id)
    if plans is None:
        yield from map(_given, connection.execute(query))
        return
    # Databases limit the parameters of a statement.
    for at in range(0, len(plans), _AT_ONCE):
        some = review_verdicts.c.plan.in_(plans[at : at + _AT_ONCE])
        yield from map(_given, connection.execute(query.where(some)))


def _given(row: Row[Any]) -> Given:
    verdict = Verdict(row.correct, row.confidence, tuple(json.loads(row.categories)), row.words)
    return Given(row.plan, row.person, verdict, bool(row.seen), row.given)
