"""``pearl batch``"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pearl.cli.jobs import complain, do, job_options, means, tell
from pearl.cli.options import (
    check_output,
    choose_strategy,
    context_options,
    demonstrations_option,
    emit_json,
    library_option,
    load,
    strategy_option,
)

if TYPE_CHECKING:
    from pearl.run.context import Policy


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
@strategy_option
@library_option
@demonstrations_option
@context_options
@click.option(
    "--pass", "passes", multiple=True, metavar="NAME",
    help="A rewrite of plans beside those that never change an answer (docs/passes.md). "
    "Repeatable; none takes out all.",
)  # fmt: skip
@job_options
def command(
    questions: str,
    documents: str,
    output: str,
    strategy: str,
    libraries: tuple[str, ...],
    demos: str,
    context: Policy,
    window: int | None,
    passes: tuple[str, ...],
    as_json: bool,
    **options: Any,  # noqa: ANN401 - those of `job_options`
) -> None:
    """Answer QUESTIONS, a file with one JSON object a line: id, question, document (a path, or
    the text itself), and optionally options, gold and plan.

    Every finished call is kept. Ctrl-C lets calls under way finish; the same command goes on
    from there, and tries questions again that failed.
    """
    from pearl.jobs.batch import Setup, batch_job
    from pearl.jobs.job import TOGETHER
    from pearl.lang.source import InputError
    from pearl.passes import chosen_passes
    from pearl.session import context_for

    if output == "-":
        raise InputError("The answers need a file of their own: name one with -o.")
    check_output(output)
    given = means(**options)
    _, library, demonstrations = choose_strategy(strategy, libraries, demos)
    setup = Setup(
        library,
        demonstrations,
        context_for(given.model, context, window),
        chosen_passes(passes),
        strategy,
        load(libraries),
    )
    # A cluster's chunks are documents: there is nothing to set out ahead of.
    ahead = 0 if given.scheduler else given.limits.concurrency or TOGETHER
    tally = do(batch_job(questions, documents, output, setup, ahead), given, quiet=as_json)
    if as_json:
        emit_json({**tally.as_object(), "output": output})
    else:
        tell(tally, given)
    complain(tally, output)
