"""Evaluations that are in a store."""

from __future__ import annotations

import time

from pearl.evaluate.results import Evaluation
from pearl.evaluate.trials import evaluation_of
from pearl.llm.prices import Prices
from pearl.source import InputError
from pearl.store.database import is_there, open_database
from pearl.store.history import find_run, read_rows


def load_run(name: str, place: str, prices: Prices) -> Evaluation:
    """The evaluation of a run.

    Args:
        name: the run's, the beginning of it, or ``last``.
        place: the store's file or address.
        prices: what models cost.

    Raises:
        InputError: there is no such run, or it is no evaluation.
    """
    if not is_there(place):
        raise InputError(f"There is no store at {place}: make an evaluation with pearl eval.")
    engine = open_database(place)
    try:
        run = find_run(engine, name, place, time.time())
        if run.kind != "eval":
            raise InputError(f"The run {run.name} is no evaluation, but a {run.kind}.")
        rows = [row for _, row in read_rows(engine, run.name)]
    finally:
        engine.dispose()
    return evaluation_of(rows, run.head["evaluation"], prices.get(str(run.head.get("model", ""))))
