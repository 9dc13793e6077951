"""Does the tasks of a job, so that it can be stopped at any time and gone on with."""

from __future__ import annotations

from typing import Any

from pearl.jobs.crew import Crew, do_all
from pearl.jobs.output import Sink
from pearl.jobs.resume import stored_rows, take_up
from pearl.jobs.task import Tasks
from pearl.llm import ModelError


async def run_tasks(tasks: Tasks[Any], crew: Crew, sink: Sink) -> None:
    """Do every task that has no row yet.

    A task that fails leaves the others alone; failed ones of an earlier go
    are tried again.

    Args:
        tasks: all there are.
        crew: who does them.
        sink: where rows go.

    Raises:
        InputError: the rows cannot be written.
        ModelError: nothing more can be asked (`Engine.stopped` says why), or
            a task cannot be read any more; what was done until then is kept.
    """
    left = await take_up(tasks, crew.store, crew.run, crew.tally)
    written = sink(stored_rows(crew.store, crew.run, left.kept))
    crew.changed(crew.tally)
    try:
        await do_all(crew, tasks.read(left.ids), written.add)
    finally:
        await crew.store.flush()
        written.close(stored_rows(crew.store, crew.run))
    stopped = crew.engine.stopped
    if stopped is not None:
        raise ModelError(stopped.reason, str(stopped))
