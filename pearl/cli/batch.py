"""``pearl batch`` and ``pearl estimate``: a file of questions, answered or only counted."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pearl.cli.inputs import open_existing
from pearl.cli.jobs import complain, do, job_settings, tell
from pearl.cli.options import Concurrency, Options, choose, library_for, load, shared
from pearl.cli.output import check_output, emit_json
from pearl.lang.text import counted, printable

if TYPE_CHECKING:
    pass


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
    from pearl.lang.source import InputError
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
        tell(progress, settings)
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
    from pearl.lang.source import InputError
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
