"""``pearl cache stats``, ``pearl cache prune``, ``pearl cache export``"""

from __future__ import annotations

import re
import time
from typing import Any

import click

from pearl.cli.inputs import open_existing
from pearl.cli.options import (
    check_output,
    counted,
    emit,
    emit_json,
    json_option,
    output_option,
    store_option,
)
from pearl.lang.source import InputError
from pearl.lang.text import printable

_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 604800}


@click.group(
    "cache", short_help="What is kept of replies: how much, and letting go of it.",
    epilog="Example:  pearl cache stats",
)  # fmt: skip
def command() -> None:
    """The replies that a store keeps. --json is an option of each command below."""


@command.command("stats", epilog="Example:  pearl cache stats")
@store_option
@json_option
def stats(store: str, as_json: bool) -> None:
    """Count what the store holds."""
    from pearl.store import cache

    with open_existing(store) as engine:
        found = cache.stats(engine)
    if as_json:
        from dataclasses import asdict

        emit_json(asdict(found))
        return
    for model in found.models:
        click.echo(
            f"{printable(model.model)}: {model.replies:,} replies, "
            f"{model.prompt_tokens:,} tokens read, {model.completion_tokens:,} written"
        )
    click.echo(f"{counted(found.runs, 'run')}, {found.entries:,} journal entries")
    click.echo(f"{found.saved:,} calls were answered from what is kept")
    click.echo(f"{found.size / 1e6:,.1f} MB")


@command.command("prune", epilog="Example:  pearl cache prune --older-than 30d")
@click.option(
    "--older-than", "age", required=True, metavar="AGE",
    help="As 12h, 30d or 8w: runs last at work before that go, with every reply only they used.",
)  # fmt: skip
@store_option
@json_option
def prune(age: str, store: str, as_json: bool) -> None:
    """Let go of old runs and their replies."""
    from pearl.store import cache

    seconds = _seconds(age)
    with open_existing(store) as engine:
        gone = cache.prune(engine, time.time() - seconds)
    if as_json:
        emit_json({"runs": gone.runs, "replies": gone.replies})
        return
    click.echo(f"Let go of {counted(gone.runs, 'run')} and {gone.replies:,} replies.")


@command.command("export", epilog="Example:  pearl cache export last -o replies.jsonl")
@click.argument("run", default="")
@output_option
@store_option
@json_option
def export(run: str, output: str, store: str, as_json: bool) -> None:
    """Write the replies as JSON lines (with or without --json): all, or those of RUN.

    --model recorded:FILE answers from them.
    """
    from pearl.jobs.output import line_of
    from pearl.store import cache
    from pearl.store.history import find_run

    check_output(output)
    with open_existing(store) as engine:
        name = find_run(engine, run, store or "the store", time.time()).name if run else ""
        lines: list[Any] = [line_of(row) for row in cache.export(engine, name)]
    if not lines:
        raise InputError("There are no replies to export.")
    emit("".join(lines), output)


def _seconds(age: str) -> float:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([mhdw])\s*", age, re.IGNORECASE)
    if not found:
        raise InputError(f"{age} is no age: write it as 12h, 30d or 8w.")
    return float(found[1]) * _UNITS[found[2].lower()]
