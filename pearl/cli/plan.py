"""``pearl plan``"""

from __future__ import annotations

import click

from pearl.cli import NoAnswer
from pearl.cli.options import (
    cache_option,
    check_output,
    counted,
    demonstrations_option,
    emit,
    emit_json,
    json_option,
    library_option,
    load,
    model_option,
    output_option,
    store_option,
)


@click.command(
    "plan", short_help="Only write the plan.",
    epilog='Example:  pearl plan "Why does Mara leave the lighthouse?" -o mara.plan',
)  # fmt: skip
@click.argument("question")
@output_option
@library_option
@demonstrations_option
@model_option
@store_option
@cache_option
@json_option
def command(
    question: str,
    output: str,
    libraries: tuple[str, ...],
    demos: str,
    model: str,
    store: str,
    no_cache: bool,
    as_json: bool,
) -> None:
    """Write a plan for QUESTION (or - for standard input). The document is never shown
    to the planner."""
    from pearl.api import write_plan
    from pearl.cli.output import progress, settle
    from pearl.lang.printer import print_plan
    from pearl.lang.source import read_source
    from pearl.lint.render import terminal
    from pearl.lint.render.json import as_object
    from pearl.lint.render.report import Report
    from pearl.models.choose import choose_model
    from pearl.store.database import address
    from pearl.strategies.planner import choose_demonstrations, load_demonstrations

    check_output(output)
    if question == "-":
        question = read_source("-", "question").text
    library = load(libraries)
    demonstrations = choose_demonstrations(load_demonstrations(demos), library)
    chosen = choose_model(model)
    with progress(quiet=as_json) as watch:
        planned = settle(
            lambda began: write_plan(
                question,
                library=library,
                demonstrations=demonstrations,
                model=chosen,
                store=address(store),
                cache=not no_cache,
                watch=watch,
                began=began,
            )
        )
    text = print_plan(planned.plan) if planned.plan else ""
    result = {
        "plan": text,
        "attempts": planned.attempts,
        "findings": [as_object(one, planned.source) for one in planned.diagnostics],
        "model": chosen.name,
        "notice": chosen.notice,
    }
    if chosen.notice and not as_json:
        click.echo(chosen.notice, err=True)
    if not text:
        if not as_json:
            click.echo(terminal.render([Report(planned.source, planned.diagnostics)]), err=True)
        raise NoAnswer(
            f"No plan was accepted after {counted(planned.attempts, 'attempt')}: ask in other "
            "words, or use another model.",
            result,
        )
    if output or not as_json:
        emit(text, output)
    if as_json:
        emit_json(result)
