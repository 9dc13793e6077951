"""What commands write: texts and JSON, files whole or not at all, answers, and progress."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pearl.cli import NoAnswer, Stopped
from pearl.lang.source import InputError, refuse_same, replacing
from pearl.lang.text import json_text, printable_lines

if TYPE_CHECKING:
    from pearl.jobs.workers import JobProgress
    from pearl.models.base import Model


_T = TypeVar("_T")


def emit(text: str, output: str = "") -> None:
    """Print a text, or write it to a file as a whole or not at all.

    On a terminal nothing in the text can steer it; elsewhere every character arrives.
    """
    if output and output != "-":
        write(output, text)
        return
    show(text if text.endswith("\n") else f"{text}\n")


def show(text: str) -> None:
    """Print a piece of a text, as `emit` prints the whole."""
    if on_terminal():
        click.echo(printable_lines(text), nl=False)
    else:
        # Without `color`, click would take out what looks like a colour.
        click.echo(text, nl=False, color=True)


def on_terminal() -> bool:
    """Whether a person reads what is printed."""
    return sys.stdout is not None and sys.stdout.isatty()


def emit_json(data: Any) -> None:  # noqa: ANN401 - any JSON
    """Print JSON data."""
    click.echo(json_text(data), nl=False, color=True)


def check_output(path: str, *more: str) -> None:
    """Make sure that a file can be written, before work is done for it.

    It may be nothing that the command was given in any other place, nor the store.

    Args:
        path: the file; empty or ``-`` for the screen.
        more: files that are read and that no argument and no option names.

    Raises:
        InputError: it cannot.
    """
    from pearl.cli.inputs import read_config
    from pearl.store.database import address

    target = Path(path)
    if path in ("", "-"):
        return
    context = click.get_current_context()
    source, default = context.get_parameter_source, click.core.ParameterSource.DEFAULT
    names = [one for one in context.params if one != "question" and source(one) is not default]
    given = list(_texts(context.params[one] for one in names))
    if path in given:
        # As its own option names it.
        given.remove(path)
    store = address(str(context.params.get("store") or ""))
    kept = [f"{store}{ending}" for ending in ("", "-wal", "-shm") if "://" not in store]
    models = [one.removeprefix("recorded:") for one in given]
    refuse_same(path, (*given, *models, *kept, *read_config().library, *more))
    if target.is_dir():
        raise InputError(f"{path} is a directory: name a file in it.")
    if not target.parent.is_dir():
        raise InputError(f"The folder {target.parent} does not exist: make it, or name another.")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise InputError(f"{path} cannot be written: name a file in a folder of your own.")


def _texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, tuple):
            yield from _texts(value)


def write(path: str, text: str) -> None:
    """Write a file so that it is there as a whole or as it was.

    Raises:
        InputError: it cannot be written.
    """
    data = text.encode("utf-8", "replace")
    given = Path(path)
    try:
        if given.exists() and not given.is_file():
            # A pipe or a device is written to, not replaced; a directory says that it is one.
            given.write_bytes(data)
        else:
            with replacing(given) as file:
                file.write(data)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror}): name a file in a folder of your own."
        ) from None


def settle(work: Callable[[Callable[[str], None]], Coroutine[Any, Any, _T]]) -> _T:
    """Run to the end; what went wrong on the way becomes one line.

    Args:
        work: what to run, given what is to be told the run's name.

    Raises:
        NoAnswer: the model or a step failed.
        Stopped: the person did.
    """
    import asyncio

    from pearl.models.base import ModelError
    from pearl.runtime.loop import RunError

    names: list[str] = []
    try:
        return asyncio.run(work(names.append))
    except (ModelError, RunError) as error:
        raise NoAnswer(str(error), _named(names)) from None
    except KeyboardInterrupt:
        kept = f" What was done until then: pearl runs show {names[0]}" if names else ""
        raise Stopped(f"Stopped.{kept}", _named(names)) from None


def _named(names: list[str]) -> dict[str, Any]:
    return {"run": names[0]} if names else {}


BAR_EVERY = 0.1
"""Seconds between two looks of the bar."""

LINE_EVERY = 30.0
"""Seconds between two lines where there is no terminal."""


@contextmanager
def progress(
    *, quiet: bool, model: Model | None = None
) -> Iterator[Callable[[str, bool], None] | None]:
    """Shows which calls are under way, and how far a model of this process has read.

    Args:
        quiet: whether to show nothing.
        model: who is asked.

    Yields:
        A function to tell the path of each call when it starts (False) and
        when it ends (True), or None where there is nobody to see it.
    """
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from pearl.models.local import Local
    from pearl.models.routing import members

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("calls"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("planning", total=0)
        under_way: dict[str, None] = {}
        counts = [0, 0]

        def watch(path: str, done: bool) -> None:
            if done:
                under_way.pop(path, None)
                counts[1] += 1
            else:
                under_way[path] = None
                counts[0] += 1
            shown = ", ".join(under_way) or "finishing"
            bar.update(task, total=counts[0], completed=counts[1], description=shown[:48])

        def told(path: str, share: float) -> None:
            reading = f"{path[:34]}: {share:.0%} read" if share < 1 else f"{path[:37]}: writing"
            bar.update(task, description=reading)

        for one in members(model) if model else ():
            if isinstance(one, Local):
                one.told = told
        yield watch


@contextmanager
def batch_progress(*, quiet: bool) -> Iterator[Callable[[JobProgress], None]]:
    """Shows how far a batch is: a bar on a terminal, else a line now and then.

    Yields:
        A function to tell of each change.
    """
    if quiet or sys.stderr is None:
        yield lambda _: None
        return
    last = time.monotonic()
    if not sys.stderr.isatty():

        def line(progress: JobProgress) -> None:
            """A line every half minute, and one when it is over."""
            nonlocal last
            over = progress.finished == progress.total and not progress.running
            if time.monotonic() - last >= LINE_EVERY or over:
                last = time.monotonic()
                print(told(progress), file=sys.stderr, flush=True)

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading the questions", total=None)
        last = 0.0

        def changed(progress: JobProgress) -> None:
            nonlocal last
            done, total = progress.finished, progress.total
            if time.monotonic() - last > BAR_EVERY or done == total:
                last = time.monotonic()
                bar.update(task, total=total, completed=done, description=told(progress))

        yield changed


@contextmanager
def counting(noun: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar on a terminal, for work of many pieces; what is printed meanwhile stands above it.

    Args:
        noun: what the pieces are.
        total: how many; with 0 nothing is shown.

    Yields:
        A function to tell that a piece is done.
    """
    if not total:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn(noun), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, redirect_stdout=on_terminal()) as bar:
        task = bar.add_task("", total=total)
        done, last = 0, 0.0

        def one() -> None:
            nonlocal done, last
            done += 1
            if time.monotonic() - last > BAR_EVERY or done == total:
                last = time.monotonic()
                bar.update(task, completed=done)

        yield one


def told(progress: JobProgress) -> str:
    """How far a batch is, in one line."""
    from pearl.models.tokens import dollars

    parts = [
        f"{progress.finished:,} of {progress.total:,} done",
        f"{progress.running} running",
        f"{progress.cached:,} calls cached",
        f"{progress.failed.total():,} failed",
        f"{progress.spent.prompt_tokens + progress.spent.completion_tokens:,} tokens",
    ]
    if progress.cost is not None:
        parts.append(dollars(progress.cost))
    if progress.seconds_left is not None and progress.finished < progress.total:
        parts.append(f"{_clock(progress.seconds_left)} left")
    return ", ".join(parts)


def _clock(seconds: float) -> str:
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"
