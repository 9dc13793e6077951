"""``pearl batch`` and ``pearl estimate``: a file of questions, answered or only counted.

And what all commands have in common that do a job: running it, saying how it ended.
"""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pearl.cli import NoAnswer, Stopped
from pearl.cli.inputs import open_existing
from pearl.cli.options import Concurrency, Options, choose, library_for, load, shared
from pearl.cli.output import check_output, emit_json
from pearl.lang.source import InputError
from pearl.lang.text import counted, printable

if TYPE_CHECKING:
    from pearl.jobs.job import Job, JobSettings
    from pearl.jobs.workers import JobProgress


def job_settings(given: Options, model: str | None = None) -> JobSettings:
    """What the options of ``job`` come to.

    Args:
        given: them, with those of ``models``.
        model: in place of the one that was given.

    Raises:
        InputError: one of them cannot be used.
    """
    from pearl.jobs.job import JobSettings
    from pearl.models.constraints import choose_mode
    from pearl.models.middleware.stack import EngineLimits
    from pearl.models.tokens import load_prices
    from pearl.store.database import address

    return JobSettings(
        model=choose(given.model if model is None else model, given.planner, given.reader),
        store=address(given.store),
        prices=load_prices(Path(given.prices) if given.prices else None),
        limits=EngineLimits(
            concurrency=given.concurrency,
            rpm=given.rpm,
            tpm=given.tpm,
            max_wait=given.max_wait,
            max_cost=given.max_cost,
            max_tokens=given.max_tokens,
        ),
        cache=not given.no_cache,
        restart=given.restart,
        scheduler=given.scheduler,
        grace=given.grace,
        constrain=choose_mode(given.constrain),
    )


def do(job: Job, settings: JobSettings, *, quiet: bool) -> JobProgress:
    """Do a job, with a bar on a terminal.

    Raises:
        NoAnswer: it could not go on.
        Stopped: the person stopped it.
    """
    from pearl.cli.output import batch_progress
    from pearl.jobs.job import start
    from pearl.models.base import ModelError

    with batch_progress(quiet=quiet) as changed:
        try:
            return start(job, settings, changed)
        except ModelError as error:
            kind = Stopped if error.reason == "stopped" else NoAnswer
            raise kind(f"{error} What was done is kept. To go on: {_again()}") from None


def report(progress: JobProgress, settings: JobSettings) -> None:
    """Say what a job came to."""
    from pearl.runtime.context import learned_window

    for notice in (settings.model.notice, learned_window(settings.model.identity).notice):
        if notice:
            click.echo(notice, err=True)
    for name, value in progress.table():
        click.echo(f"{name:10} {value}")
    click.echo(click.style(f"\npearl runs show {progress.run}", dim=True))


def complain(progress: JobProgress, where: str, noun: str = "question") -> None:
    """Say that some tasks failed, and end.

    Args:
        progress: what the job came to.
        where: what says why.
        noun: what a task is.

    Raises:
        SystemExit: some did.
    """
    failed = progress.failed.total()
    if failed:
        click.echo(
            f"pearl: {counted(failed, noun)} failed, and {where} says why. "
            f"To try {'it' if failed == 1 else 'them'} again: {_again()}",
            err=True,
        )
        raise SystemExit(NoAnswer.exit_code)


def _again() -> str:
    """The command that goes on with the run."""
    return f"pearl {shlex.join(one for one in sys.argv[1:] if one != '--restart')}"


@click.command(
    "batch", epilog="Example:  pearl batch questions.jsonl --documents docs/ -o answers.jsonl"
)
@click.argument("questions")
@shared("documents")
@click.option("-o", "--output", required=True, metavar="FILE", help="The file of answers.")
@shared(
    "strategy", "tools", "library", "demos", "shown", "examples", "turns", "constrain", "context"
)
@click.option(
    "--pass", "passes", multiple=True, metavar="NAME",
    help="A rewrite of plans beside those that never change an answer (docs/passes.md). "
    "Repeatable; none takes out all.",
)  # fmt: skip
@shared("models", "job")
def batch_command(questions: str, output: str, passes: tuple[str, ...], given: Options) -> None:
    """Answer QUESTIONS, a file with one JSON object a line: id, question, document (a path, or
    the text itself), and optionally options, gold and plan.

    Every finished call is kept. Ctrl-C lets calls under way finish; the same command goes on
    from there, and tries questions again that failed.
    """
    from pearl.answer import context_for
    from pearl.jobs.batch import Setup, batch_job
    from pearl.jobs.job import CONCURRENT_TASKS
    from pearl.models.routing import planner_of, with_library
    from pearl.passes import chosen_passes
    from pearl.strategies.registry import Settings, prepare

    if output == "-":
        raise InputError("The answers need a file of their own: name one with -o.")
    check_output(output)
    settings = job_settings(given)
    prepared = prepare(
        given.strategy,
        planner_of(settings.model).name,
        library_for(given.strategy, given.libraries),
        given.demos,
        Settings(chosen_passes(passes), shown=given.shown, turns=given.turns),
        given.tools,
    )
    plans = load(given.libraries)
    model = with_library(settings.model, (prepared.library, plans))
    settings = replace(settings, model=model)
    context = context_for(model, given.context, given.window)
    setup = Setup(prepared, context, plans, given.examples, given.tools)
    # A cluster's chunks are documents: there is nothing to set out ahead of.
    ahead = 0 if given.scheduler else settings.limits.concurrency or CONCURRENT_TASKS
    job = batch_job(questions, given.documents, output, setup, ahead)
    progress = do(job, settings, quiet=given.as_json)
    if prepared.notice:
        click.echo(prepared.notice, err=True)
    if given.as_json:
        emit_json({**progress.as_object(), "output": output})
    else:
        report(progress, settings)
    complain(progress, output)


@click.command(
    "estimate",
    epilog="Example:  pearl estimate questions.jsonl --documents docs/ --model gpt-4o-mini",
)
@click.argument("questions")
@shared("documents", "strategy", "library", "models", "context")
@click.option(
    "--concurrency", type=Concurrency(), default=32, show_default=True, metavar="N",
    help="Calls at a time, for the time it takes.",
)  # fmt: skip
@shared("prices", "store", "json")
def estimate_command(questions: str, concurrency: int, given: Options) -> None:
    """Estimate what QUESTIONS take: calls, tokens, money, time. Nothing is sent.

    Where a row has no plan, it is taken to be of usual length. A document that does not fit the
    window is counted as --context has it read. Calls that a store has already are not taken off.
    The model need not be reachable.
    """
    from pearl.answer import context_for
    from pearl.jobs.batch import Setup, estimate
    from pearl.jobs.questions import read_index
    from pearl.models.base import env_number
    from pearl.models.tokens import counter, dollars, load_prices
    from pearl.runtime.context import Context
    from pearl.store.database import address, is_there
    from pearl.store.history import mean_seconds
    from pearl.strategies.registry import find_strategy, prepare

    if find_strategy(given.strategy).name != "pearl":
        raise InputError(
            f"pearl estimate counts no calls of {given.strategy}, as they depend on what is found: "
            "batch a few questions; pearl runs show last has their calls and tokens."
        )
    usual = given.model or os.environ.get("PEARL_MODEL", "").strip() or "offline"
    name, writer = given.reader or usual, given.planner or usual
    table = load_prices(Path(given.prices) if given.prices else None)
    price = table.get(name)
    reply = env_number("PEARL_MAX_TOKENS") or 0
    own = choose(name) if name == "local" or name.endswith(".gguf") else None
    known = given.window or env_number("PEARL_CONTEXT") or (price.window if price else None)
    fitting = Context(given.context, known, reply, counter(name))
    if own:
        fitting = context_for(own, given.context, given.window)
    setup = Setup(prepare("pearl", writer, load(given.libraries)), fitting)
    estimated = estimate(read_index(questions, given.documents), setup, name)
    usage, parallel, seconds = estimated.usage, concurrency or 32, None
    place = address(given.store)
    if is_there(place):
        with open_existing(given.store) as engine:
            mean = mean_seconds(engine, name)
        seconds = estimated.calls / parallel * mean if mean else None
    # In millionths of a dollar: without a prefix cache, and with one.
    planning = table.cost({writer: estimated.planning} if estimated.planned else {})
    costs = []
    if price and planning is not None:
        reading = estimated.reading
        costs = [
            planning + price.cost(each) for each in (replace(reading, cached_tokens=0), reading)
        ]
    unknown = name if price is None else writer
    if given.as_json:
        emit_json(
            {
                "questions": estimated.questions,
                "plans_to_write": estimated.planned,
                "refused": estimated.refused,
                "documents": estimated.documents,
                "calls": round(estimated.calls),
                **asdict(usage),
                "model": name,
                "planner": writer,
                "cost": costs[0] / 1e6 if costs else None,
                "cost_with_prefix_cache": costs[1] / 1e6 if costs else None,
                "seconds": seconds,
            }
        )
        return
    cost = f"not known: no price for {unknown}; give one with --prices"
    if costs:
        cost = f"about {dollars(costs[0])}, with a prefix cache {dollars(costs[1])}"
    time = f"not known: no call of {name} is in the store yet"
    if seconds is not None:
        time = f"about {seconds:,.0f} s with {parallel} calls at a time"
    rows = {
        "questions": f"{estimated.questions:,} on {counted(estimated.documents, 'document')}",
        "calls": f"about {round(estimated.calls):,}",
        "tokens": f"about {usage.prompt_tokens:,} read, of which an endpoint with a prefix cache "
        f"may keep {usage.cached_tokens:,}, and {usage.completion_tokens:,} written",
        "cost": cost,
        "time": time,
    }
    for label, value in rows.items():
        click.echo(f"{label:10} {value}")
    if estimated.refused:
        noun = "question is" if estimated.refused == 1 else "questions are"
        click.echo(
            f"{estimated.refused:,} {noun} refused before anything is sent, and not counted. "
            f"{printable(estimated.why)}",
            err=True,
        )
