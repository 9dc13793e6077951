"""Opening a store that is there, to look at what it holds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pearl.source import InputError

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from pearl.store.history import RunRow


@contextmanager
def open_existing(store: str) -> Iterator[Engine]:
    """A store's database.

    Args:
        store: as given on the command line; empty for the one in use here.

    Raises:
        InputError: there is none, or it cannot be used.
    """
    from pearl.store.database import address, is_there, open_database

    place = address(store)
    if not is_there(place):
        raise InputError(
            f"There is no store at {place}: make a run with pearl ask, run or batch, or name "
            "the store with --store."
        )
    engine = open_database(place)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def open_run(name: str, store: str) -> Iterator[tuple[Engine, RunRow]]:
    """A store's database, and a run in it.

    Raises:
        InputError: there is no such run.
    """
    from pearl.store.history import find_run

    with open_existing(store) as engine:
        yield engine, find_run(engine, name, store or "the store", time.time())
