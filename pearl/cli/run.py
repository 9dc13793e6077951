"""``pearl run``"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pearl.cli import NoAnswer
from pearl.cli.options import (
    cache_option,
    context_options,
    counted,
    json_option,
    library_option,
    load,
    model_option,
    options_option,
    store_option,
)

if TYPE_CHECKING:
    from pearl.run.context import Policy


@click.command(
    "run", short_help="Only execute a plan.", epilog="Example:  pearl run mara.plan story.txt"
)
@click.argument("plan")
@click.argument("document")
@options_option
@library_option
@model_option
@context_options
@store_option
@cache_option
@json_option
def command(
    plan: str,
    document: str,
    options: tuple[str, ...],
    libraries: tuple[str, ...],
    model: str,
    context: Policy,
    window: int | None,
    store: str,
    no_cache: bool,
    as_json: bool,
) -> None:
    """Run PLAN on DOCUMENT (text files; one of them may be - for standard input)."""
    from pearl.api import run
    from pearl.cli.output import progress, settle, show
    from pearl.lang.diagnostics import Severity
    from pearl.lang.parser import parse
    from pearl.lang.source import InputError, read_source
    from pearl.lint.checker import check
    from pearl.lint.render import terminal
    from pearl.lint.render.json import as_object
    from pearl.lint.render.report import Report
    from pearl.models.choose import choose_model
    from pearl.session import context_for
    from pearl.store.database import address

    if plan == document == "-":
        raise InputError("Only one of the plan and the document can be standard input.")
    library = load(libraries)
    chosen = choose_model(model)
    source = read_source(plan, "plan")
    text = read_source(document, "document")
    errors = [one for one in check(parse(source), library) if one.severity is Severity.ERROR]
    if errors:
        if not as_json:
            click.echo(terminal.render([Report(source, errors)]), nl=False)
        raise NoAnswer(
            f"{plan} has {counted(len(errors), 'error')}, so it was not run: mend what pearl "
            "lint finds.",
            {"findings": [as_object(one, source) for one in errors]},
        )
    with progress(quiet=as_json) as watch:
        answer = settle(
            lambda began: run(
                source.text,
                text,
                options=options,
                library=library,
                model=chosen,
                context=context_for(chosen, context, window),
                store=address(store),
                cache=not no_cache,
                watch=watch,
                began=began,
            )
        )
    show(answer, text, as_json=as_json)
