"""How far long work is, for a person who watches: a bar on a terminal or in a notebook."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pearl.jobs.workers import JobProgress

BAR_EVERY = 0.1
"""Seconds between two looks of the bar."""

LINE_EVERY = 30.0
"""Seconds between two lines where there is no terminal."""


def is_watched() -> bool:
    """Whether a person sees a bar while it moves: on a terminal, or in a notebook with widgets."""
    if sys.stderr is not None and sys.stderr.isatty():
        return True
    # A notebook's kernel has loaded IPython; where it has not, nobody loads it here.
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    notebook = shell is not None and type(shell).__name__ == "ZMQInteractiveShell"
    return notebook and find_spec("ipywidgets") is not None


@contextmanager
def bar(
    *columns: str, every: float = BAR_EVERY, above: bool = False
) -> Iterator[Callable[..., None]]:
    """A bar on a terminal's standard error, which is gone when the block has ended.

    Args:
        columns: ``bar``, ``count``, ``bytes``, ``elapsed``, ``left``, or any text, in which
            ``{task.description}`` is what is being done.
        every: seconds between two looks of it, at least; the last one is always shown.
        above: whether what is printed meanwhile stands above it.

    Yields:
        A function that takes what rich's ``Progress.update`` does.
    """
    from rich import progress as rich
    from rich.console import Console

    kinds: dict[str, type[rich.ProgressColumn]] = {
        "bar": rich.BarColumn,
        "count": rich.MofNCompleteColumn,
        "bytes": rich.DownloadColumn,
        "elapsed": rich.TimeElapsedColumn,
        "left": rich.TimeRemainingColumn,
    }
    cols = [kinds[key]() if key in kinds else rich.TextColumn(key, markup=False) for key in columns]
    console, last = Console(stderr=True), 0.0
    with rich.Progress(*cols, console=console, transient=True, redirect_stdout=above) as shown:
        task = shown.add_task("", total=None)

        def update(**fields: Any) -> None:  # noqa: ANN401 - as rich's
            nonlocal last
            over = fields.get("completed") == fields.get("total", -1)
            if over or time.monotonic() - last >= every:
                last = time.monotonic()
                shown.update(task, **fields)

        yield update


@contextmanager
def batch_progress(*, quiet: bool) -> Iterator[Callable[[JobProgress], None]]:
    """Shows how far a batch is: a bar on a terminal, else a line now and then.

    Yields:
        A function to tell of each change.
    """
    if quiet or sys.stderr is None:
        yield lambda _: None
    elif is_watched():
        with bar("bar", "{task.description}") as update:
            update(description="reading the questions")
            yield lambda progress: update(
                total=progress.total, completed=progress.finished, description=describe(progress)
            )
    else:
        last = time.monotonic()

        def line(progress: JobProgress) -> None:
            """A line every half minute, and one when it is over."""
            nonlocal last
            over = progress.finished == progress.total and not progress.running
            if time.monotonic() - last >= LINE_EVERY or over:
                last = time.monotonic()
                sys.stderr.write(f"{describe(progress)}\n")
                sys.stderr.flush()

        yield line


def describe(progress: JobProgress) -> str:
    """How far a batch is, in one line."""
    from pearl.models.tokens import dollars

    parts = [
        f"{progress.finished:,} of {progress.total:,} done",
        f"{progress.running} running",
        f"{progress.calls.kept:,} calls cached",
        f"{progress.failed.total():,} failed",
        f"{progress.calls.spent.total:,} tokens",
    ]
    if progress.cost is not None:
        parts.append(dollars(progress.cost))
    if progress.seconds_left is not None and progress.finished < progress.total:
        hours, rest = divmod(round(progress.seconds_left), 3600)
        clock = f"{hours}:{rest // 60:02}" if hours else f"{rest // 60}"
        parts.append(f"{clock}:{rest % 60:02} left")
    return ", ".join(parts)
