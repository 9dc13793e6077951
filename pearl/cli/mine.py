"""``pearl mine`` and ``pearl refine``: actions, and example plans, made from questions."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pearl.cli import warn
from pearl.cli.batch import complain, do, fit_of, job_settings, report
from pearl.cli.inputs import load, load_sound
from pearl.cli.options import Options, choose_metric, shared
from pearl.cli.output import check_kind, check_output, emit_json
from pearl.lang.errors import InputError
from pearl.lang.source import refuse_same, write
from pearl.lang.text import counted, printable

if TYPE_CHECKING:
    from pearl.jobs.job import JobSettings
    from pearl.mining.mine import Mined
    from pearl.models.batch_store import BatchStatus

SHOWN = 3
"""Notes of each kind that are printed; a file gets them all."""

_KINDS = {
    "unreadable": "lines of replies that cannot be read",
    "finding": "what rules say of actions",
    "parameters": "names with several signatures",
    "meaning": "actions that mean the same as another",
    "seed": "names that a seed has",
    "failed": "questions without a reply",
}


@click.command(
    "mine", epilog="Example:  pearl mine questions.jsonl -o mined.actions --seed-actions core"
)
@click.argument("questions")
@click.option("-o", "--output", required=True, metavar="FILE", help="The library to write.")
@click.option(
    "--seed-actions", "seeds", multiple=True, metavar="FILE", default=("core",), show_default=True,
    help="Actions that are there already: a shipped library, or a file. Repeatable.",
)  # fmt: skip
@click.option(
    "--mode", type=click.Choice(["live", "batch-api"]), default="live", show_default=True,
    help="One call after another, or the provider's Batch API: slower and cheaper "
    "(docs/batch-api.md).",
)  # fmt: skip
@click.option(
    "--poll", type=click.FloatRange(0.1), default=30.0, show_default=True, metavar="SECONDS",
    help="How often a batch is looked at.",
)  # fmt: skip
@click.option("--notes", metavar="FILE", default="", help="Write every note, as JSON lines.")
@shared("exclude", "model", "job")
def mine_command(
    questions: str,
    output: str,
    seeds: tuple[str, ...],
    mode: str,
    poll: float,
    notes: str,
    options: Options,
) -> None:
    """Ask, for each of QUESTIONS, which new actions it needs; write them as one library.

    QUESTIONS is a file with one JSON object a line: question, and id or qid; or an article of
    QuALITY with its questions. Every finished call
    is kept, and the same command goes on where it stopped.
    """
    from pearl.jobs.job import read_results
    from pearl.jobs.questions import questions_in
    from pearl.lang.values import canonical_json
    from pearl.mining.mine import gather, mine_job, read_examples

    if output == "-":
        raise InputError("The library needs a file of its own: name one with -o.")
    for path in (output, notes):
        check_output(path)
    check_kind(output, "library")
    library = load_sound(seeds)
    left_out = questions_in(options.exclude) if options.exclude else frozenset()
    examples = read_examples(questions, left_out)
    settings = job_settings(options)
    if mode == "batch-api":
        folder = Path(f"{output}.batches")
        settings = _in_batches(settings, folder, len(examples), poll, quiet=options.as_json)
    progress = do(mine_job(examples, questions, library, left_out), settings, quiet=options.as_json)
    mined = gather(read_results(settings.store, progress.run), library)
    write(output, mined.text)
    if notes:
        write(notes, "".join(canonical_json(asdict(note)) + "\n" for note in mined.notes))
    if options.as_json:
        emit_json({**progress.as_object(), **_as_object(mined), "output": output})
    else:
        report(progress, settings)
        _show(mined, progress.done, output, notes)
    complain(progress)


def _in_batches(
    settings: JobSettings, folder: Path, questions: int, poll: float, *, quiet: bool
) -> JobSettings:
    """The same, through the provider's Batch API: everything is asked at once."""
    from pearl.models.batch_api import Options, open_batches

    if settings.scheduler:
        raise InputError("The Batch API needs no cluster: leave out --scheduler, or --mode.")
    printed: dict[int, str] = {}

    def show(status: BatchStatus) -> None:
        """A line on the error stream whenever a batch stands otherwise than before."""
        done = f"{status.completed:,} of {status.requests:,} done, {status.failed:,} failed"
        line = f"batch {status.batch}: {status.status}, {done}"
        if not quiet and printed.get(status.batch) != line:
            printed[status.batch] = line
            click.echo(line, err=True)

    model = open_batches(settings.model.name, folder, Options(interval=poll, progress=show))
    limits = replace(settings.limits, concurrency=questions, first=questions)
    return replace(settings, model=model, limits=limits)


def _show(mined: Mined, questions: int, output: str, notes: str) -> None:
    click.echo(
        f"\n{counted(len(mined.actions), 'action')} from {counted(mined.proposals, 'proposal')}, "
        f"in {output}; {counted(questions - mined.proposing, 'question')} brought none"
    )
    kinds = Counter(note.kind for note in mined.notes)
    for kind, count in kinds.items():
        click.echo(f"\n{_KINDS[kind]}: {count:,}")
        for note in [note for note in mined.notes if note.kind == kind][:SHOWN]:
            shown = ", ".join(note.questions[:5])
            more = f" and {len(note.questions) - 5} more" if len(note.questions) > 5 else ""
            asked_by = click.style(f"(question {shown}{more})" if shown else "", dim=True)
            click.echo(f"  {printable(note.message)} {asked_by}")
        if count > SHOWN:
            click.echo(f"  … {notes or 'all of them: --notes FILE'}")


def _as_object(mined: Mined) -> dict[str, Any]:
    return {
        "actions": [
            {
                "name": action.name,
                "signature": action.signature,
                "returns": action.returns,
                "definition": action.doc,
                "questions": list(action.provenance),
            }
            for action in mined.actions
        ],
        "proposals": mined.proposals,
        "notes": [asdict(note) for note in mined.notes],
    }


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
@shared("scoring", "exclude", "library", "demos", "constrain", "context", "models", "job")
def refine_command(questions: str, output: str, rounds: int, options: Options) -> None:
    """Write a plan for each of QUESTIONS, execute it, and keep it if its answer is the gold one.

    A plan whose answer is wrong is refined by the model. QUESTIONS is as for pearl batch, or a
    file of QuALITY, with gold in every row. Plans as they were written first go to DIR/unrefined.
    """
    from pearl.jobs.batch import make_setup
    from pearl.jobs.job import read_results
    from pearl.jobs.questions import questions_in, read_index
    from pearl.jobs.scoring import find_metric, with_grader
    from pearl.mining.refine import first_file, refine_job, write_demonstrations

    folder = Path(output)
    refuse_same(output, [options.demos] if options.demos else [])
    check_output(first_file(folder))
    settings = job_settings(options)
    fit = fit_of(options)
    how = ("pearl", load(options.libraries), options.demos)
    setup, model = make_setup(settings.model, *how, fit=fit)
    left_out = questions_in(options.exclude) if options.exclude else frozenset()
    index = read_index(questions, options.documents, without=left_out)
    warn(*index.notes)
    metric = find_metric(choose_metric(options))
    settings = replace(settings, model=with_grader(model, metric))
    job = refine_job(index, setup, rounds, left_out, metric)
    progress = do(job, settings, quiet=options.as_json)
    if setup.prepared.notice:
        click.echo(setup.prepared.notice, err=True)
    rows = list(read_results(settings.store, progress.run))
    written = list(write_demonstrations(rows, folder))
    refined = sum(bool(row.get("correct")) and len(row["tries"]) > 1 for row in rows)
    if options.as_json:
        files = [str(path) for path in written]
        emit_json({**progress.as_object(), "plans": files, "refined": refined, "rows": rows})
    else:
        report(progress, settings)
        click.echo(f"{counted(len(written), 'plan')} in {output}, {refined:,} of them refined")
    complain(progress)
