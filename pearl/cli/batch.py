"""``pearl batch``

``pearl estimate``
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pearl.cli.jobs import complain, do, job_settings, tell
from pearl.cli.options import Concurrency, library_for, load, shared
from pearl.cli.output import check_output, emit_json
from pearl.lang.text import counted

if TYPE_CHECKING:
    from pearl.jobs.estimate import Estimate
    from pearl.models.prices import Price
    from pearl.run.context import Policy


@click.command(
    "batch", short_help="Answer a file of questions; stop it any time, it goes on.",
    epilog="Example:  pearl batch questions.jsonl --documents docs/ -o answers.jsonl",
)  # fmt: skip
@click.argument("questions")
@shared("documents")
@click.option("-o", "--output", required=True, metavar="FILE", help="The file of answers.")
@shared("strategy", "library", "demos", "context")
@click.option(
    "--pass", "passes", multiple=True, metavar="NAME",
    help="A rewrite of plans beside those that never change an answer (docs/passes.md). "
    "Repeatable; none takes out all.",
)  # fmt: skip
@shared("job")
def batch_command(
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
    from pearl.jobs.job import CONCURRENT_TASKS
    from pearl.lang.source import InputError
    from pearl.passes import chosen_passes
    from pearl.session import context_for
    from pearl.strategies.registry import prepare

    if output == "-":
        raise InputError("The answers need a file of their own: name one with -o.")
    check_output(output)
    given = job_settings(**options)
    setup = Setup(
        prepare(
            strategy,
            given.model.name,
            library_for(strategy, libraries),
            demos,
            passes=chosen_passes(passes),
        ),
        context_for(given.model, context, window),
        load(libraries),
    )
    # A cluster's chunks are documents: there is nothing to set out ahead of.
    ahead = 0 if given.scheduler else given.limits.concurrency or CONCURRENT_TASKS
    progress = do(batch_job(questions, documents, output, setup, ahead), given, quiet=as_json)
    if as_json:
        emit_json({**progress.as_object(), "output": output})
    else:
        tell(progress, given)
    complain(progress, output)


@click.command(
    "estimate", short_help="What a batch takes, before anything is sent.",
    epilog="Example:  pearl estimate questions.jsonl --documents docs/ --model gpt-4o-mini",
)  # fmt: skip
@click.argument("questions")
@shared("documents", "library", "model")
@click.option(
    "--concurrency", type=Concurrency(), default=32, show_default=True, metavar="N",
    help="Calls at a time, for the time it takes.",
)  # fmt: skip
@shared("prices", "store", "json")
def estimate_command(
    questions: str,
    documents: str,
    libraries: tuple[str, ...],
    model: str,
    concurrency: int,
    prices: str,
    store: str,
    as_json: bool,
) -> None:
    """Estimate what QUESTIONS take: calls, tokens, money, time. Nothing is sent.

    Where a row has no plan, it is taken to be of usual length. Calls that a store has already
    are not taken off. The model need not be reachable.
    """
    from pearl.jobs.batch import Setup
    from pearl.jobs.estimate import estimate
    from pearl.jobs.questions import read_index
    from pearl.models.prices import load_prices
    from pearl.strategies.registry import prepare

    name = model or _named()
    price = load_prices(Path(prices) if prices else None).get(name)
    setup = Setup(prepare("pearl", name, load(libraries)))
    found = estimate(read_index(questions, documents), setup, name)
    pace, at_once = _seconds_a_call(store, name), concurrency or 32
    seconds = found.calls / at_once * pace if pace else None
    if as_json:
        emit_json(_as_object(found, name, price, seconds))
        return
    for label, value in _table(found, name, price, seconds, at_once):
        click.echo(f"{label:10} {value}")
    size, document = found.largest
    if price and price.window and size > price.window:
        click.echo(
            f"{document} has {size:,} tokens, more than the {price.window:,} that fit {name}.",
            err=True,
        )


def _costs(found: Estimate, price: Price) -> tuple[int, int]:
    """In millionths of a dollar: without a prefix cache, and with one."""
    return price.cost(replace(found.usage, cached_tokens=0)), price.cost(found.usage)


def _as_object(
    found: Estimate, model: str, price: Price | None, seconds: float | None
) -> dict[str, Any]:
    costs = _costs(found, price) if price else None
    return {
        "questions": found.questions,
        "plans_to_write": found.planned,
        "documents": found.documents,
        "calls": round(found.calls),
        **asdict(found.usage),
        "model": model,
        "cost": costs[0] / 1e6 if costs else None,
        "cost_with_prefix_cache": costs[1] / 1e6 if costs else None,
        "seconds": seconds,
    }


def _table(
    found: Estimate, model: str, price: Price | None, seconds: float | None, at_once: int
) -> Iterator[tuple[str, str]]:
    from pearl.models.prices import dollars

    usage = found.usage
    yield "questions", f"{found.questions:,} on {counted(found.documents, 'document')}"
    yield "calls", f"about {round(found.calls):,}"
    yield (
        "tokens",
        f"about {usage.prompt_tokens:,} read, of which an endpoint with a prefix cache may keep "
        f"{usage.cached_tokens:,}, and {usage.completion_tokens:,} written",
    )
    if price:
        plain, cached = map(dollars, _costs(found, price))
        yield "cost", f"about {plain}, with a prefix cache {cached}"
    else:
        yield "cost", f"not known: no price for {model}; give one with --prices"
    if seconds is None:
        yield "time", f"not known: no call of {model} is in the store yet"
    else:
        yield "time", f"about {seconds:,.0f} s with {at_once} calls at a time"


def _named() -> str:
    return os.environ.get("PEARL_MODEL", "").strip() or "offline"


def _seconds_a_call(store: str, model: str) -> float | None:
    """How long a call of this model took so far, where runs of it are in the store."""
    from pearl.store.database import address, is_there, open_database

    place = address(store)
    if not is_there(place):
        return None
    from pearl.store.history import mean_seconds

    engine = open_database(place)
    try:
        return mean_seconds(engine, model)
    finally:
        engine.dispose()
