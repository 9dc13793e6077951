"""``pearl estimate``"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pearl.cli.batch import documents_option
from pearl.cli.limits import Concurrency, price_options
from pearl.cli.options import (
    counted,
    emit_json,
    json_option,
    library_option,
    load,
    model_option,
    store_option,
)


@click.command(
    "estimate", short_help="What a batch takes, before anything is sent.",
    epilog="Example:  pearl estimate questions.jsonl --documents docs/ --model gpt-4o-mini",
)  # fmt: skip
@click.argument("questions")
@documents_option
@library_option
@model_option
@click.option(
    "--concurrency", type=Concurrency(), default=32, show_default=True, metavar="N",
    help="Calls at a time, for the time it takes.",
)  # fmt: skip
@price_options
@store_option
@json_option
def command(
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
    from pearl.batch import Setup, read_index
    from pearl.batch.estimate import estimate
    from pearl.llm.prices import dollars, load_prices
    from pearl.planner import choose_demonstrations, load_demonstrations

    library = load(libraries)
    name = model or _named()
    price = load_prices(Path(prices) if prices else None).get(name)
    index = read_index(questions, documents)
    setup = Setup(library, choose_demonstrations(load_demonstrations(), library))
    found = estimate(index, setup, name)
    usage = found.usage
    from pearl.llm import Usage

    without = Usage(usage.prompt_tokens, usage.completion_tokens)
    pace = _seconds_a_call(store, name)
    time = found.calls / (concurrency or 32) * pace if pace else None
    costs = [price.cost(one) for one in (without, usage)] if price else None
    if as_json:
        emit_json(
            {
                "questions": found.questions,
                "plans_to_write": found.planned,
                "documents": found.documents,
                "calls": round(found.calls),
                "prompt_tokens": usage.prompt_tokens,
                "cached_tokens": usage.cached_tokens,
                "completion_tokens": usage.completion_tokens,
                "model": name,
                "cost": costs[0] / 1e6 if costs else None,
                "cost_with_prefix_cache": costs[1] / 1e6 if costs else None,
                "seconds": time,
            }
        )
        return
    rows: list[tuple[str, Any]] = [
        ("questions", f"{found.questions:,} on {counted(found.documents, 'document')}"),
        ("calls", f"about {round(found.calls):,}"),
        (
            "tokens",
            f"about {usage.prompt_tokens:,} read, of which an endpoint with a prefix cache may "
            f"keep {usage.cached_tokens:,}, and {usage.completion_tokens:,} written",
        ),
    ]
    if costs:
        rows.append(("cost", f"about {dollars(costs[0])}, with a prefix cache {dollars(costs[1])}"))
    else:
        rows.append(("cost", f"not known: no price for {name}; give one with --prices"))
    if time is None:
        rows.append(("time", f"not known: no call of {name} is in the store yet"))
    else:
        rows.append(("time", f"about {time:,.0f} s with {concurrency or 32} calls at a time"))
    for label, value in rows:
        click.echo(f"{label:10} {value}")
    size, document = found.largest
    if price and price.window and size > price.window:
        click.echo(
            f"{document} has {size:,} tokens, more than the {price.window:,} that fit {name}.",
            err=True,
        )


def _named() -> str:
    import os

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
