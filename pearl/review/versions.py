"""Edited plans: new versions beside the original, which stays as it is."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import func, insert, select, update
from sqlalchemy.exc import IntegrityError

from pearl.lang.diagnostics import has_errors
from pearl.lang.library import Library
from pearl.lang.parser import parse
from pearl.lang.source import InputError, Source
from pearl.lint.checker import check
from pearl.review.folders import Folders, create, demo_name, version_file
from pearl.review.queue import LONGEST, Item
from pearl.store.database import reading
from pearl.store.store import storable
from pearl.store.tables import review_versions

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

_TRIES = 50


@dataclass(frozen=True, slots=True)
class Version:
    """An edited plan.

    Args:
        plan: the id of the plan it is a version of.
        number: counted from 2; the plan itself is version 1.
        person: the editor's number.
        text: the plan.
        file: its file, as a person would write it; empty where only the
            store has it.
        demo: the name of the file it was sent to the demonstrations as;
            empty where it was not.
        time: when it was made, in seconds since 1970.
    """

    plan: str
    number: int
    person: int
    text: str
    file: str = ""
    demo: str = ""
    time: float = 0.0


class _TakenError(Exception):
    """There is a file of this number already."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def edited(text: str) -> str:
    """What a browser sends as the lines that were written: its line ends are no part of them."""
    text = storable(text.replace("\r\n", "\n").replace("\r", "\n"))
    return text if text.endswith("\n") else f"{text}\n"


def accept(text: str, item: Item, library: Library) -> str:
    """An edited plan as it is kept.

    Args:
        text: as the browser sent it.
        item: what was edited.
        library: the actions that plans may call.

    Raises:
        InputError: it is the same, too long, or has errors.
    """
    text = edited(text)
    if len(text) > LONGEST:
        raise InputError(f"The plan is longer than {LONGEST:,} characters: shorten it.")
    if text.strip() == item.text.replace("\r\n", "\n").strip():
        raise InputError("The plan is as it was: change something, or leave it.")
    parsed = parse(Source(item.name, text))
    if not parsed.plan.steps or has_errors(check(parsed, library)):
        raise InputError("The plan has errors: mend what the checker finds, and keep it then.")
    return text


def keep(engine: Engine, item: Item, person: int, text: str, folders: Folders) -> Version:
    """Add a version; it is safe when this returns.

    Two people who do it at once get two versions.

    Raises:
        InputError: its file cannot be written.
    """
    least = 2
    for _ in range(_TRIES):
        try:
            with engine.begin() as connection:
                return _add(connection, item, person, text, folders, least)
        except _TakenError as taken:
            least = taken.number + 1
        except IntegrityError:
            # On a server another transaction may have taken the number since it was looked up.
            continue
    raise InputError("Too many versions are being made at once: try again.")


def read_versions(engine: Engine, plan: str | None = None) -> list[Version]:
    """Versions in order.

    Args:
        engine: the store.
        plan: of which plan; None for all.
    """
    table = review_versions
    query = select(table).order_by(table.c.plan, table.c.number)
    if plan is not None:
        query = query.where(table.c.plan == plan)
    with reading(engine) as connection:
        return [
            Version(row.plan, row.number, row.person, row.text, row.file, row.demo, row.made)
            for row in connection.execute(query)
        ]


def send(engine: Engine, item: Item, version: Version, demos: Path) -> Version:
    """Put a version into the folder of demonstrations; one that is there already stays.

    Args:
        engine: the store.
        item: what it is a version of.
        version: which.
        demos: the folder.

    Raises:
        InputError: it has no question, which a demonstration needs, or
            cannot be written.
    """
    if version.demo:
        return version
    text = _with_question(version.text, item.question)
    stem = demo_name(item.name)
    for number in range(1, 1000):
        name = f"{stem}.plan" if number == 1 else f"{stem}-{number}.plan"
        if create(demos / name, text, (demos,)):
            break
    else:
        raise InputError(f"{stem}.plan is there a thousand times: make room for another.")
    where = (review_versions.c.plan == item.id) & (review_versions.c.number == version.number)
    with engine.begin() as connection:
        connection.execute(update(review_versions).where(where).values(demo=name))
    return replace(version, demo=name)


def _add(
    connection: Connection, item: Item, person: int, text: str, folders: Folders, least: int
) -> Version:
    last = select(func.max(review_versions.c.number)).where(review_versions.c.plan == item.id)
    number = max(least, int(connection.execute(last).scalar() or 1) + 1)
    file = version_file(item.place, number) if item.place else None
    shown = str(Path(item.name).with_name(file.name)) if file else ""
    version = Version(item.id, number, person, text, shown, "", time.time())
    row = {
        "plan": item.id,
        "number": number,
        "person": person,
        "text": text,
        "file": shown,
        "demo": "",
        "made": version.time,
    }
    connection.execute(insert(review_versions), row)
    # The row comes first: a file without one harms nobody, and the number is ours now.
    if file and not create(file, text, folders.plans):
        raise _TakenError(number)
    return version


def _with_question(text: str, question: str) -> str:
    if parse(text).plan.question:
        return text
    if not question:
        raise InputError('A demonstration needs its question: write "question: …" above the steps.')
    return f"question: {question}\n\n{text}"
