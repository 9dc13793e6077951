"""Plans of runs that are in the store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pearl.runtime.journal import Entry
from pearl.source import InputError
from pearl.store.history import RunRow, find_run, read_entries, read_rows, since_last_start

if TYPE_CHECKING:
    from sqlalchemy import Engine


def read_run_plans(
    name: str, engine: Engine, place: str
) -> Iterator[tuple[str, str, str, str, dict[str, Any]]]:
    """Every plan of a run.

    Args:
        name: the run's, the start of it, or ``last``; RUN/ID for one question.
        engine: the store.
        place: its address, as a person wrote it.

    Returns:
        For each plan how a person calls it, the run's name, the question's id,
        the plan's text, and what else is known of the question.

    Raises:
        InputError: there is no such run, or no plan in it.
    """
    run = _find(name, engine, place)
    _, _, task = name.partition("/")
    if not run.has_rows:
        text = planned(journal(engine, run, ""))
        if not text:
            raise InputError(f"The run {run.name} has no plan: it stopped before one was accepted.")
        yield run.name, run.name, "", text, run.head
        return
    found = False
    for id, row in read_rows(engine, run.name):
        told = row["result"] if isinstance(row.get("result"), dict) else row
        plan = told.get("plan")
        if not isinstance(plan, str) or not plan.strip() or (task and id != task):
            continue
        found = True
        yield f"{run.name}/{id}", run.name, id, plan, _row(told)
    if not found:
        what = f"question {task} with a plan" if task else "plan in its rows"
        raise InputError(f"The run {run.name} has no {what}: pearl runs show {run.name} lists it.")


def run_of(engine: Engine, name: str) -> RunRow | None:
    """A run by its whole name; None where it is no longer there."""
    try:
        return find_run(engine, name, "the store", time.time())
    except InputError:
        return None


def journal(engine: Engine, run: RunRow, task: str) -> list[Entry]:
    """What a run did for one of its questions, the last time it was begun."""
    return since_last_start(list(read_entries(engine, run, task)))


def planned(entries: list[Entry]) -> str:
    """The last plan that a journal has, with all its steps; empty where it has none."""
    plans = [one.value for one in entries if one.path == "plan" and one.status == "done"]
    return str(plans[-1]) if plans else ""


def _row(told: dict[str, Any]) -> dict[str, Any]:
    """A row of an evaluation says ``words`` for the answer, and ``answer`` for the option."""
    if "method" not in told:
        return told
    return {**told, "answer": told.get("words"), "option": told.get("answer")}


def _find(name: str, engine: Engine, place: str) -> RunRow:
    try:
        return find_run(engine, name.partition("/")[0], place, time.time())
    except InputError as error:
        raise InputError(f"{name} is no file and no folder. {error}") from None
