"""``pearl batch``"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pearl.cli.failures import Failure, NoAnswer, Stopped
from pearl.cli.limits import limits_options, price_options
from pearl.cli.options import (
    cache_option,
    check_output,
    context_options,
    counted,
    emit_json,
    json_option,
    library_option,
    load,
    model_option,
    store_option,
)

if TYPE_CHECKING:
    from pearl.batch import Tally
    from pearl.batch.start import Job
    from pearl.context import Policy


def documents_option(command: Any) -> Any:  # noqa: ANN401 - as click's
    """``--documents``."""
    return click.option(
        "--documents", default="", metavar="DIR",
        help="The folder with the documents. Default: the one the questions are in.",
    )(command)  # fmt: skip


@click.command(
    "batch", short_help="Answer a file of questions; stop it any time, it goes on.",
    epilog="Example:  pearl batch questions.jsonl --documents docs/ -o answers.jsonl",
)  # fmt: skip
@click.argument("questions")
@documents_option
@click.option("-o", "--output", required=True, metavar="FILE", help="The file of answers.")
@library_option
@model_option
@context_options
@click.option(
    "--pass", "passes", multiple=True, metavar="NAME",
    help="A rewrite of plans beside those that never change an answer (docs/passes.md). "
    "Repeatable; none takes out all.",
)  # fmt: skip
@limits_options
@price_options
@click.option(
    "--scheduler", default="", metavar="ADDRESS",
    help="Run on a Dask cluster: tcp://host:8786, or local for one on this machine.",
)  # fmt: skip
@store_option
@cache_option
@click.option("--restart", is_flag=True, help="Begin a new run, and leave the last one as it is.")
@json_option
def command(
    questions: str,
    documents: str,
    output: str,
    libraries: tuple[str, ...],
    model: str,
    context: Policy,
    window: int | None,
    passes: tuple[str, ...],
    prices: str,
    scheduler: str,
    store: str,
    no_cache: bool,
    restart: bool,
    as_json: bool,
    **limits: Any,  # noqa: ANN401 - those of `limits_options`
) -> None:
    """Answer QUESTIONS, a file with one JSON object a line: id, question, document (a path, or
    the text itself), and optionally options, gold and plan.

    Every finished call is kept. Ctrl-C lets calls under way finish; the same command goes on
    from there, and tries questions again that failed.
    """
    from pearl.batch.start import Job, start
    from pearl.cli.progress import batch_progress
    from pearl.engine import Limits
    from pearl.llm import ModelError, choose_model
    from pearl.llm.prices import load_prices
    from pearl.passes import chosen_passes
    from pearl.session import context_for
    from pearl.source import InputError
    from pearl.store.database import address

    if output == "-":
        raise InputError("The answers need a file of their own: name one with -o.")
    check_output(output)
    grace = limits.pop("grace")
    chosen = choose_model(model)
    job = Job(
        questions=questions,
        documents=documents,
        output=output,
        library=load(libraries),
        model=chosen,
        context=context_for(chosen, context, window),
        passes=chosen_passes(passes),
        store=address(store),
        prices=load_prices(Path(prices) if prices else None),
        limits=Limits(**limits),
        cache=not no_cache,
        restart=restart,
        scheduler=scheduler,
        grace=grace,
    )
    with batch_progress(quiet=as_json) as changed:
        try:
            tally = start(job, changed)
        except ModelError as error:
            raise _ended(error) from None
    _show(tally, job, as_json=as_json)
    if tally.failed:
        failed = tally.failed.total()
        click.echo(
            f"pearl: {counted(failed, 'question')} failed, and {output} says why. "
            f"To try {'it' if failed == 1 else 'them'} again: {_again()}",
            err=True,
        )
        raise SystemExit(NoAnswer.exit_code)


def _show(tally: Tally, job: Job, *, as_json: bool) -> None:
    if as_json:
        emit_json({**tally.as_object(), "output": job.output})
        return
    if job.model.notice:
        click.echo(job.model.notice, err=True)
    for name, value in tally.table():
        click.echo(f"{name:10} {value}")
    click.echo(click.style(f"\npearl runs show {tally.run}", dim=True))


def _again() -> str:
    """The command that goes on with the run."""
    return f"pearl {shlex.join(one for one in sys.argv[1:] if one != '--restart')}"


def _ended(error: Exception) -> Failure:
    kind = Stopped if getattr(error, "reason", "") == "stopped" else NoAnswer
    return kind(f"{error} What was done is kept. To go on: {_again()}")
