"""What commands have in common that do a job: their options, running it, saying how it ended."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pearl.cli import NoAnswer, Stopped
from pearl.cli.options import Options, choose
from pearl.lang.text import counted

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


def tell(progress: JobProgress, settings: JobSettings) -> None:
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
