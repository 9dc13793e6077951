"""``pearl refine``"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pearl.cli.jobs import complain, do, job_settings, tell
from pearl.cli.options import Options, load, shared
from pearl.cli.output import check_output, emit_json
from pearl.lang.text import counted

if TYPE_CHECKING:
    pass


@click.command(
    "refine", epilog="Example:  pearl refine questions.jsonl --documents docs/ -o plans/demos/"
)
@click.argument("questions")
@shared("documents")
@click.option("-o", "--output", required=True, metavar="DIR", help="The folder for the plans.")
@click.option(
    "--rounds", type=click.IntRange(0), default=3, show_default=True, metavar="N",
    help="How often a plan whose answer is wrong may be refined.",
)  # fmt: skip
@shared("exclude", "library", "demos", "constrain", "context", "models", "job")
def refine_command(questions: str, output: str, rounds: int, given: Options) -> None:
    """Write a plan for each of QUESTIONS, execute it, and keep it if its answer is the gold one.

    A plan whose answer is wrong is refined by the model. QUESTIONS is as for pearl batch, or a
    file of QuALITY, with gold in every row. Plans as they were written first go to DIR/unrefined.
    """
    from pearl.answer import context_for
    from pearl.jobs.batch import Setup
    from pearl.jobs.job import read_results
    from pearl.jobs.questions import questions_in, read_index
    from pearl.lang.source import InputError, refuse_same
    from pearl.mining.refine import refine_job, write_demonstrations
    from pearl.models.routing import planner_of, with_library
    from pearl.strategies.registry import prepare

    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{output} is a file: name a folder for the plans.")
    refuse_same(output, [given.demos] if given.demos else [])
    check_output(str(folder / "plan") if folder.is_dir() else output)
    settings = job_settings(given)
    prepared = prepare("pearl", planner_of(settings.model).name, load(given.libraries), given.demos)
    settings = replace(settings, model=with_library(settings.model, (prepared.library,)))
    setup = Setup(prepared, context_for(settings.model, given.context, given.window))
    left_out = questions_in(given.exclude) if given.exclude else frozenset()
    index = read_index(questions, given.documents, without=left_out)
    job = refine_job(index, setup, rounds, left_out)
    progress = do(job, settings, quiet=given.as_json)
    if prepared.notice:
        click.echo(prepared.notice, err=True)
    rows = list(read_results(settings.store, progress.run))
    written = list(write_demonstrations(rows, folder))
    refined = sum(bool(row.get("correct")) and len(row["tries"]) > 1 for row in rows)
    if given.as_json:
        files = [str(one) for one in written]
        emit_json({**progress.as_object(), "plans": files, "refined": refined, "rows": rows})
    else:
        tell(progress, settings)
        click.echo(f"{counted(len(written), 'plan')} in {output}, {refined:,} of them refined")
    complain(progress, f"pearl runs show {progress.run}")
