"""``pearl batch`` and ``pearl estimate``: answer a file of questions, or estimate the cost.

It also has what all commands with a job share: running it, and reporting how it ended.
"""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pearl.cli import NoAnswer, Stopped, warn
from pearl.cli.inputs import library_for, load_sound, open_existing, read_config
from pearl.cli.options import Options, choose, concurrency, shared
from pearl.cli.output import check_output, emit_json, follow_up
from pearl.lang.errors import InputError
from pearl.lang.text import counted, printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from pearl.jobs.batch import Setup
    from pearl.jobs.job import Job, JobSettings
    from pearl.jobs.workers import JobProgress
    from pearl.models.base import Model
    from pearl.models.tokens import Prices
    from pearl.runtime.context import Context


def prices_of(options: Options) -> Prices:
    """The price table of a command: the option ``--prices``, over the default table.

    Raises:
        InputError: it cannot be read.
    """
    from pearl.models.tokens import load_prices

    return load_prices(Path(options.prices) if options.prices else None)


def fit_of(options: Options) -> Callable[[Model], Context]:
    """A function that gives how much fits a model's prompt, by a command's options.

    Raises:
        InputError: the table of prices cannot be read.
    """
    from pearl.session import context_for

    prices = prices_of(options)
    return partial(context_for, policy=options.context, window=options.window, prices=prices)


def job_settings(options: Options, model: str | None = None) -> JobSettings:
    """The settings of a job, from the options of ``job`` and ``models``; ``model`` is the name of
    one that replaces ``--model``, or None for none.

    Raises:
        InputError: an option cannot be used.
    """
    from pearl.jobs.job import JobSettings
    from pearl.models.constraints import choose_mode
    from pearl.models.middleware.stack import EngineLimits
    from pearl.store.database import address

    return JobSettings(
        model=choose(options.model if model is None else model, options.planner, options.reader),
        store=address(options.store),
        prices=prices_of(options),
        limits=EngineLimits(
            concurrency=options.concurrency,
            rpm=options.rpm,
            tpm=options.tpm,
            max_wait=options.max_wait,
            max_cost=options.max_cost,
            max_tokens=options.max_tokens,
        ),
        cache=not options.no_cache,
        restart=options.restart,
        tags=options.tags,
        scheduler=options.scheduler,
        grace=options.grace,
        constrain=choose_mode(options.constrain),
    )


def do(job: Job, settings: JobSettings, *, quiet: bool) -> JobProgress:
    """Do a job, with a bar on a terminal.

    Raises:
        NoAnswer: it could not go on.
        Stopped: the user stopped it.
    """
    from pearl.jobs.job import start
    from pearl.jobs.progress import batch_progress
    from pearl.models.base import ModelError

    with batch_progress(quiet=quiet) as changed:
        try:
            return start(job, settings, changed)
        except ModelError as error:
            kind = Stopped if error.reason == "stopped" else NoAnswer
            how = ", with a higher limit" if error.reason == "budget" else ""
            begin = "begin again" if error.reason == "lost" else f"go on{how}"
            again = f"To {begin}: {_resume_command()}"
            kept = {
                "lost": "What it held is lost.",
                "store": "Replies that were not committed yet are lost.",
            }.get(error.reason, "What was done is kept.")
            raise kind(f"{error} {kept} {again}") from None


def report(progress: JobProgress, settings: JobSettings) -> None:
    """Print the result of a job."""
    from pearl.runtime.context import learned_window

    for notice in (settings.model.notice, learned_window(settings.model.identity).notice):
        if notice:
            click.echo(notice, err=True)
    for name, value in progress.table():
        click.echo(f"{name:10} {value}")
    click.echo(click.style(f"\n{follow_up('runs show', progress.run)}", dim=True))


def complain(*jobs: JobProgress, where: str = "", noun: str = "question") -> None:
    """If some tasks of these jobs failed, say so, and exit. ``where`` is the file with the reasons,
    or empty for the command that shows the run; ``noun`` is what a task is called.

    Raises:
        SystemExit: some tasks failed.
    """
    from pearl.models.base import OFFLINE

    failing = [job for job in jobs if job.failed]
    cached = "--no-cache" not in sys.argv
    for job in failing:
        failed = job.failed.total()
        first = printable(job.first_failure)
        again = f"To try {'it' if failed == 1 else 'them'} again: {_resume_command()}"
        if job.model == OFFLINE and job.failed.keys() <= {"refusal", "request"}:
            # The offline reader cannot do it: the error says what to do.
            again = ""
        elif cached and set(job.failed) == {"reply"} and not job.calls.failed:
            again = (
                "The replies are cached: name another model, or ask all anew, in a run of its own, "
                "with --no-cache."
            )
        elif cached and "reply" in job.failed:
            again += ". Cached replies are asked for anew with --no-cache alone."
        click.echo(
            f"pearl: {counted(failed, noun)} failed, and "
            f"{where or follow_up('runs show', job.run)} says why"
            f"{'' if failed == 1 else '; the first'}: {first}"
            f"{'' if first.endswith(('.', '?', '!')) else '.'} {again}".rstrip(),
            err=True,
        )
    if failing:
        raise SystemExit(NoAnswer.exit_code)


def _resume_command() -> str:
    """The command that resumes the run, without the password in the store's address."""
    from pearl.store.database import without_password

    typed = [word for word in sys.argv[1:] if word != "--restart"]
    if store := click.get_current_context().params.get("store"):
        typed = [word.replace(store, without_password(store)) for word in typed]
    return f"pearl {shlex.join(typed)}"


@click.command(
    "batch", epilog="Example:  pearl batch questions.jsonl --documents docs/ -o answers.jsonl"
)
@click.argument("questions")
@shared("documents")
@click.option("-o", "--output", required=True, metavar="FILE", help="The file of answers.")
@shared("answering", "models", "job")
def batch_command(questions: str, output: str, options: Options) -> None:
    """Answer QUESTIONS, a file with one JSON object a line: id, question, document (a path, or
    the text itself), and optionally options, gold and plan.

    Every finished call is kept. Ctrl-C lets calls under way finish; the same command goes on
    from there, and tries questions again that failed.
    """
    from pearl.jobs.batch import batch_job
    from pearl.jobs.job import CONCURRENT_TASKS, replaced_answers
    from pearl.jobs.progress import documents_progress
    from pearl.jobs.question_file import read_index

    if output == "-":
        raise InputError("The answers need a file of their own: name one with -o.")
    check_output(output, "")
    settings = job_settings(options)
    setup, model = _setup(questions, options, settings.model)
    settings = replace(settings, model=model)
    # On a cluster a document's questions are in one chunk, so its first call needs no head start.
    ahead = 0 if options.scheduler else settings.limits.concurrency or CONCURRENT_TASKS
    with documents_progress(quiet=options.as_json) as told:
        problem = setup.plan_problem
        index = read_index(questions, options.documents, ahead, problem=problem, progress=told)
    warn(*index.notes)
    job = batch_job(index, output, setup)
    run, other = replaced_answers(job, settings)
    if other:
        kept = f"the run {run}, which keeps them: {follow_up('runs show', run)}"
        whose = kept if run else "no run in this store"
        warn(f"{output} is replaced. The answers in it were those of {whose}.")
    progress = do(job, settings, quiet=options.as_json)
    if setup.prepared.notice:
        click.echo(setup.prepared.notice, err=True)
    if options.as_json:
        emit_json({**progress.as_object(), "output": output})
    else:
        report(progress, settings)
    complain(progress, where=output)


def _setup(questions: str, options: Options, model: Model) -> tuple[Setup, Model]:
    """How questions are answered, by the options of ``answering``, and the model together with
    those that actions of the library name. The project of the folder of ``questions``, their file,
    sets the library of plans in rows."""
    from pearl.jobs.batch import make_setup
    from pearl.passes import chosen_passes
    from pearl.strategies.registry import StrategySettings, limits_within

    library, home = library_for(options.strategy, options.libraries), Path(questions).parent
    same = options.libraries or read_config(home) == read_config()
    return make_setup(
        model,
        options.strategy,
        library,
        options.demos,
        StrategySettings(
            chosen_passes(options.passes),
            limits_within(options.depth),
            shown=options.shown,
            turns=options.turns,
        ),
        fit=fit_of(options),
        plans=library if library and same else load_sound(options.libraries, home),
        examples=options.examples,
        tools=options.tools,
    )


@click.command(
    "estimate",
    epilog="Example:  pearl estimate questions.jsonl --documents docs/ --model gpt-4o-mini",
)
@click.argument("questions")
@shared("documents", "answering", "models")
@click.option(
    "--concurrency", "parallel", type=concurrency, default="32", show_default=True, metavar="N",
    help="Calls at a time, for the time it takes.",
)  # fmt: skip
@shared("prices", "store", "cache", "json")
def estimate_command(questions: str, parallel: int, options: Options) -> None:
    """Estimate what QUESTIONS take: calls, tokens, money, time. Nothing is sent.

    Give it those options of pearl batch that decide what is asked. Where neither a row nor the
    store has a plan, it is taken to be of usual length. A document that does not fit the window is
    counted as --context has it read. Replies that the store has cost nothing. A strategy that asks
    as it finds is counted with the calls that it may make at most. The model need not be reachable.
    """
    from pearl.jobs.estimate import PARALLEL, estimate
    from pearl.jobs.progress import documents_progress
    from pearl.jobs.question_file import read_index
    from pearl.models.constraints import choose_mode
    from pearl.store.database import address, is_there

    prices = prices_of(options)
    model, why = _model_or_stand_in(options)
    setup, model = _setup(questions, options, model)
    with documents_progress(quiet=options.as_json) as told:
        problem = setup.plan_problem
        index = read_index(questions, options.documents, problem=problem, progress=told)
    warn(*index.notes)
    stored = is_there(address(options.store))
    with open_existing(options.store) if stored else nullcontext() as store:
        how = (choose_mode(options.constrain), parallel or PARALLEL)
        estimated = estimate(index, setup, model, prices, store, *how, cache=not options.no_cache)
    refused = estimated.share.refused
    ended = click.exceptions.Exit(NoAnswer.exit_code if refused else 0)
    if options.as_json:
        emit_json(estimated.as_object())
        raise ended
    for label, value in estimated.table():
        click.echo(f"{label:10} {value}")
    if stored and why and not options.no_cache:
        warn(f"cached calls are not subtracted: {why}")
    if refused:
        noun = "question is" if refused == 1 else "questions are"
        click.echo(
            f"{refused:,} {noun} refused before anything is sent, and not counted.", err=True
        )
    for line in estimated.why:
        click.echo(printable(line), err=True)
    raise ended


def _model_or_stand_in(options: Options) -> tuple[Model, str]:
    """The model that is to answer; or, if it cannot be used here, a stand-in with its name, and the
    reason.

    Raises:
        InputError: no model is named.
    """
    from pearl.models.recorded import Recorded
    from pearl.models.routing import Models

    try:
        return choose(options.model, options.planner, options.reader), ""
    except InputError as error:
        usual = options.model or os.environ.get("PEARL_MODEL", "").strip()
        planner, reader = options.planner or usual, options.reader or usual
        if not (planner and reader):
            raise
        model = Recorded({}, reader)
        return (model if planner == reader else Models(Recorded({}, planner), model)), str(error)
