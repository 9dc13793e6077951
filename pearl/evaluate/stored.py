"""Evaluations that are in a store."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from pearl.evaluate.results import Evaluation
from pearl.evaluate.trials import evaluation_of
from pearl.llm.prices import Prices
from pearl.source import InputError
from pearl.store.database import is_there, open_database
from pearl.store.history import RunRow, find_run, list_runs, read_rows

if TYPE_CHECKING:
    from sqlalchemy import Engine


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
        run = _last(engine, place) if name == "last" else find_run(engine, name, place, time.time())
        if run.kind != "eval":
            raise InputError(f"The run {run.name} is no evaluation: pearl {run.kind} made it.")
        rows = [row for _, row in read_rows(engine, run.name)]
    finally:
        engine.dispose()
    model = str(run.head.get("model", ""))
    found = evaluation_of(rows, run.head["evaluation"], prices.get(model))
    began = time.strftime("%Y-%m-%d %H:%M", time.gmtime(run.started))
    made = (("model", model), ("run", f"{run.name}, begun {began} UTC"))
    return replace(found, about=(*made, *found.about))


def _last(engine: Engine, place: str) -> RunRow:
    """The last evaluation."""
    for run in list_runs(engine, time.time()):
        if run.kind == "eval":
            return run
    raise InputError(f"There is no evaluation in {place}: make one with pearl eval.")
