"""``pearl condense``"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pearl.cli.condensed import as_object, asked, reading, summary, unreadable
from pearl.cli.options import (
    cache_option,
    check_output,
    emit,
    emit_json,
    json_option,
    model_option,
    on_terminal,
    store_option,
    write,
)

if TYPE_CHECKING:
    from pearl.llm import Model
    from pearl.mining.covering import Condensed
    from pearl.mining.rounds import Rounds
    from pearl.plan import Action
    from pearl.source import Source


ROUNDS = 4
"""How often a model sees what is left where nothing else is said."""


@click.command(
    "condense", short_help="Make an action library smaller.",
    epilog="Example:  pearl condense mined.actions -o small.actions --target 80",
)  # fmt: skip
@click.argument("file")
@click.option("-o", "--output", default="", metavar="FILE", help="Where the small library goes.")
@click.option(
    "--target", type=click.IntRange(1), default=80, show_default=True, metavar="N",
    help="How many actions are wanted, at most. Builtins do not count.",
)  # fmt: skip
@click.option(
    "--rounds", type=click.IntRange(0), metavar="N",
    help="How often a model sees what is left, at most; 0 condenses without a model. Default: 4, "
    "and 0 offline.",
)  # fmt: skip
@click.option(
    "--review", is_flag=True,
    help="Ask about each merge; where there is no terminal, write FILE.review to be edited.",
)  # fmt: skip
@click.option("--accept", default="", metavar="FILE", help="Take the merges of a reviewed file.")
@click.option(
    "--seed-actions", "seeds", multiple=True, metavar="FILE",
    help="Actions that plans will have beside these: their names stay theirs. Default: core.",
)  # fmt: skip
@model_option
@store_option
@cache_option
@json_option
def command(
    file: str,
    output: str,
    target: int,
    rounds: int | None,
    review: bool,
    accept: str,
    seeds: tuple[str, ...],
    model: str,
    store: str,
    no_cache: bool,
    as_json: bool,
) -> None:
    """Put like actions of FILE (a .actions file, or the paper's NAME(ARGS) # definition text)
    together, until TARGET are left. Each says what it replaces, so that pearl migrate can
    rewrite plans that use the older names."""
    from pearl.library import library_source, load_library
    from pearl.source import InputError
    from pearl.syntax import parse_library

    check_output(output, file, accept)
    source = library_source(file)
    parsed = parse_library(source)
    if not parsed.actions:
        raise InputError(f"{source.name} holds no action: write lines such as NAME(CTX, X) : …")
    beside = load_library(*(seeds or ("core",))).actions
    asking = review and on_terminal() and sys.stdin.isatty() and not as_json
    if review and not asking and output in ("", "-"):
        raise InputError("--review writes a file beside the library: name that with -o FILE.")
    if review and not asking and Path(f"{output}.review").exists():
        raise InputError(
            f"{output}.review is there already: take it with --accept {output}.review, or move it."
        )
    told = reading(source)
    if not as_json:
        unreadable(told)
    result, more = _condensed(parsed.actions, source, beside, target, rounds, accept, model,
                              store, keep=not no_cache, as_json=as_json)  # fmt: skip
    if asking:
        result = asked(result, beside)
    _written(result, source, output, review=review and not asking, as_json=as_json)
    missed = len(result.actions) > target and not accept and not review
    wanted = None if accept else target
    if as_json:
        emit_json(as_object(result, told, wanted, more, output))
    else:
        summary(result, told, wanted, more, output, review=review and not asking)
    raise click.exceptions.Exit(1 if told["findings"] or missed else 0)


def _condensed(
    actions: Sequence[Action],
    source: Source,
    beside: Mapping[str, Action],
    target: int,
    rounds: int | None,
    accept: str,
    model: str,
    store: str,
    *,
    keep: bool,
    as_json: bool,
) -> tuple[Condensed, dict[str, Any]]:
    """The library, and what is to be said of how it came about."""
    if accept:
        from pearl.mining.review import read_review
        from pearl.source import read_source

        return read_review(read_source(accept, "review"), actions, beside), {}
    if rounds != 0:
        from pearl.llm import choose_model

        chosen = choose_model(model)
        # The embedded reader merges by likeness, which is done without asking it.
        rounds = rounds if rounds is not None else ROUNDS * (chosen.name != "offline")
    if not rounds:
        from pearl.mining.condense import condense

        return condense(actions, target, seeds=beside), {}
    made, run = _rounds(actions, source, beside, target, rounds, chosen, store, keep=keep,
                        as_json=as_json)  # fmt: skip
    return made.condensed, {"rounds": made, "model": chosen, "run": run}


def _rounds(
    actions: Sequence[Action],
    source: Source,
    beside: Mapping[str, Action],
    target: int,
    rounds: int,
    model: Model,
    store: str,
    *,
    keep: bool,
    as_json: bool,
) -> tuple[Rounds, str]:
    from collections.abc import Callable

    from pearl.cli.answering import settle
    from pearl.cli.progress import progress
    from pearl.mining.rounds import condense_with
    from pearl.runtime import Caller
    from pearl.session import context_for, open_session
    from pearl.store.database import address

    names: list[str] = []
    head = {"library": source.name, "digest": source.digest, "target": target, "rounds": rounds,
            "model": model.name}  # fmt: skip
    context = context_for(model)

    async def work(began: Callable[[str], None]) -> Rounds:
        def started(name: str) -> None:
            names.append(name)
            began(name)

        with progress(quiet=as_json) as watch:
            async with open_session(
                model, head, "condense", address(store), context=context, cache=keep, began=started
            ) as session:
                engine = session.engine
                ask = Caller(engine.ask, engine.identity, session.journal, watch)
                return await condense_with(
                    actions, target, ask, rounds=rounds, seeds=beside, context=context
                )

    return settle(work), names[0] if names else ""


def _written(
    result: Condensed, source: Source, output: str, *, review: bool, as_json: bool
) -> None:
    from pearl.mining.review import print_review
    from pearl.syntax.printer import print_library

    if output or not as_json:
        emit(print_library(result.actions), output)
    if review:
        write(f"{output}.review", print_review(result, source.name, output))
