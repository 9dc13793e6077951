"""``pearl refine``"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pearl.cli.jobs import complain, do, job_settings, tell
from pearl.cli.options import load, shared
from pearl.cli.output import check_output, emit_json
from pearl.lang.text import counted

if TYPE_CHECKING:
    from pearl.runtime.context import Policy


@click.command(
    "refine", short_help="Make example plans that were executed and led to the right answer.",
    epilog="Example:  pearl refine questions.jsonl --documents docs/ -o plans/demos/",
)  # fmt: skip
@click.argument("questions")
@shared("documents")
@click.option("-o", "--output", required=True, metavar="DIR", help="The folder for the plans.")
@click.option(
    "--rounds", type=click.IntRange(0), default=3, show_default=True, metavar="N",
    help="How often a plan whose answer is wrong may be refined.",
)  # fmt: skip
@shared("exclude", "library", "demos", "constrain", "context", "models", "job")
def refine_command(
    questions: str,
    documents: str,
    output: str,
    rounds: int,
    exclude: str,
    libraries: tuple[str, ...],
    demos: str,
    context: Policy,
    window: int | None,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - those of `job_options`
) -> None:
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
    refuse_same(output, [demos] if demos else [])
    check_output(str(folder / "plan") if folder.is_dir() else output)
    given = job_settings(**options)
    prepared = prepare("pearl", planner_of(given.model).name, load(libraries), demos)
    given = replace(given, model=with_library(given.model, (prepared.library,)))
    setup = Setup(prepared, context_for(given.model, context, window))
    left_out = questions_in(exclude) if exclude else frozenset()
    index = read_index(questions, documents, without=left_out)
    job = refine_job(index, setup, rounds, left_out)
    progress = do(job, given, quiet=as_json)
    if prepared.notice:
        click.echo(prepared.notice, err=True)
    rows = list(read_results(given.store, progress.run))
    written = list(write_demonstrations(rows, folder))
    refined = sum(bool(row.get("correct")) and len(row["tries"]) > 1 for row in rows)
    if as_json:
        files = [str(one) for one in written]
        emit_json({**progress.as_object(), "plans": files, "refined": refined, "rows": rows})
    else:
        tell(progress, given)
        click.echo(f"{counted(len(written), 'plan')} in {output}, {refined:,} of them refined")
    complain(progress, f"pearl runs show {progress.run}")
