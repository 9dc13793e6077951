"""Runs the questions of a file, so that it can be stopped at any time and gone on with."""

from __future__ import annotations

from pearl.batch.crew import Crew, answer_all
from pearl.batch.output import Output
from pearl.batch.questions import Index
from pearl.batch.resume import stored_rows, take_up, tasks
from pearl.llm import ModelError


async def run_batch(index: Index, crew: Crew, output: str) -> None:
    """Answer every question that has no answer yet, and write the file of answers.

    Questions of one document go together, so that an endpoint may keep what
    it read. A question that fails leaves the others alone; failed ones of an
    earlier go are tried again.

    Args:
        index: the questions.
        crew: who answers.
        output: the file of answers.

    Raises:
        InputError: the output cannot be written.
        ModelError: nothing more can be asked (`Engine.stopped` says why), or
            a document cannot be read any more; what was answered until then
            is kept.
    """
    left = await take_up(index, crew.store, crew.run, crew.tally, ahead=crew.together)
    written = Output(output, stored_rows(crew.store, crew.run, left.kept))
    crew.changed(crew.tally)
    try:
        await answer_all(crew, tasks(index, left.places), written.add)
    finally:
        await crew.store.flush()
        written.close(stored_rows(crew.store, crew.run))
    stopped = crew.engine.stopped
    if stopped is not None:
        raise ModelError(stopped.reason, str(stopped))
