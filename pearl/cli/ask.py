"""``pearl ask``"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pearl.cli.options import (
    cache_option,
    choose_strategy,
    context_options,
    demonstrations_option,
    json_option,
    library_option,
    model_option,
    options_option,
    store_option,
    strategy_option,
)

if TYPE_CHECKING:
    from pearl.run.context import Policy


@click.command(
    "ask", short_help="Plan, run, and answer with evidence.",
    epilog='Example:  pearl ask story.txt "Why does Mara leave the lighthouse?"',
)  # fmt: skip
@click.argument("document")
@click.argument("question")
@options_option
@strategy_option
@click.option(
    "--tools", default="", metavar="FILE",
    help="For rebel: the tools that may be asked, in place of a search of the document.",
)  # fmt: skip
@library_option
@demonstrations_option
@model_option
@context_options
@store_option
@cache_option
@json_option
def command(
    document: str,
    question: str,
    options: tuple[str, ...],
    strategy: str,
    tools: str,
    libraries: tuple[str, ...],
    demos: str,
    model: str,
    context: Policy,
    window: int | None,
    store: str,
    no_cache: bool,
    as_json: bool,
) -> None:
    """Answer QUESTION about DOCUMENT (a text file; one of the two may be - for standard input).

    A plan is written without looking at the document, checked, and run on it
    step by step; or, with --strategy, steps are written one at a time. The
    answer comes with the passages it rests on, the plan, and a trace.
    """
    from pearl.api import ask
    from pearl.cli.output import progress, settle, show
    from pearl.lang.source import InputError, read_source
    from pearl.models.choose import choose_model
    from pearl.session import context_for
    from pearl.store.database import address

    if document == question == "-":
        raise InputError("Only one of the document and the question can be standard input.")
    if not question.strip():
        raise InputError("The question is empty: write it in quotes after the document.")
    named, library, demonstrations = choose_strategy(strategy, libraries, demos)
    chosen = choose_model(model)
    source = read_source(document, "document")
    if question == "-":
        question = read_source("-", "question").text
    with progress(quiet=as_json) as watch:
        answer = settle(
            lambda began: ask(
                source,
                question,
                options=options,
                library=library if named.demonstrations else None,
                demonstrations=demonstrations,
                model=chosen,
                context=context_for(chosen, context, window),
                store=address(store),
                cache=not no_cache,
                watch=watch,
                began=began,
                strategy=strategy,
                tools=tools,
            )
        )
    show(answer, source, as_json=as_json)
