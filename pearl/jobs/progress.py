"""Long work in front of a user: a progress bar on a terminal or in a notebook, and Ctrl-C, which
stops the work in an orderly way."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

    from pearl.jobs.workers import JobProgress

_T = TypeVar("_T")

BAR_EVERY = 0.1
"""Seconds between two updates of the bar."""

LINE_EVERY = 30.0
"""Seconds between two lines of progress where there is no terminal."""


def processors() -> int:
    """How many processors this process may use, as far as the system tells."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    return len(allowed) or os.cpu_count() or 1


def is_watched() -> bool:
    """Whether a bar can be shown: on a terminal, or in a notebook with widgets."""
    if sys.stderr is not None and sys.stderr.isatty():
        return True
    # Not imported: a notebook's kernel has loaded IPython already.
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    notebook = shell is not None and type(shell).__name__ == "ZMQInteractiveShell"
    return notebook and find_spec("ipywidgets") is not None


@contextmanager
def bar(
    *columns: str, every: float = BAR_EVERY, above: bool = False
) -> Iterator[Callable[..., None]]:
    """Show a progress bar on standard error, until the block ends.

    Args:
        columns: ``bar``, ``count``, ``bytes``, ``elapsed``, ``left``, or any text, in which
            ``{task.description}`` is what is being done.
        every: the least seconds between two updates; the last update is always shown.
        above: whether text printed meanwhile goes above the bar.

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
    # In a notebook, a second thread that draws could put its output outside the bar's widget, where
    # it would stay; so the bar is drawn only here.
    here = console.is_jupyter
    with rich.Progress(
        *cols, console=console, transient=True, redirect_stdout=above, auto_refresh=not here
    ) as shown:
        task = shown.add_task("", total=None)

        def update(**fields: Any) -> None:  # noqa: ANN401 - as rich's
            nonlocal last
            over = fields.get("completed") == fields.get("total", -1)
            if over or time.monotonic() - last >= every:
                last = time.monotonic()
                shown.update(task, refresh=here, **fields)

        yield update


def lines() -> Callable[..., None]:
    """A function as `bar` yields one, which writes the description every `LINE_EVERY` seconds."""
    last = time.monotonic()

    def update(*, description: str = "", at_once: bool = False, **_: object) -> None:
        nonlocal last
        if time.monotonic() - last >= LINE_EVERY or at_once:
            last = time.monotonic()
            # The work goes on where nobody reads of it any more.
            with suppress(OSError):
                sys.stderr.write(f"{description}\n")
                sys.stderr.flush()

    return update


@contextmanager
def documents_progress(*, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show how many documents are read: as a bar on a terminal, else as a line now and then.

    Yields:
        A function to call with the documents that were read, and how many there are.
    """
    if quiet or sys.stderr is None:
        yield lambda done, of: None
    elif is_watched():
        with bar("bar", "count", "documents read", "left") as update:
            yield lambda done, of: update(total=of, completed=done)
    else:
        write = lines()
        yield lambda done, of: write(description=f"{done:,} of {of:,} documents read")


@contextmanager
def batch_progress(*, quiet: bool) -> Iterator[Callable[[JobProgress], None]]:
    """Show the progress of a batch: as a bar on a terminal, else as a line now and then.

    Yields:
        A function to call with the progress at each change.
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
        write = lines()

        def line(progress: JobProgress) -> None:
            over = progress.finished == progress.total and not progress.running
            write(description=describe(progress), at_once=over)

        yield line


def describe(progress: JobProgress) -> str:
    """The progress of a batch in one line."""
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


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run_until_stopped(
    work: Coroutine[Any, Any, _T], stops: Sequence[Callable[[asyncio.Task[_T]], object]]
) -> _T:
    """Run a coroutine to its end, as `asyncio.run` does, or until Ctrl-C or SIGTERM stops it.
    Outside the main thread no signal is handled.

    Impatient users press Ctrl-C several times. If it has stopped the work, it is also ignored
    afterwards, so that the program can save what was done before it ends.

    Args:
        work: the coroutine.
        stops: what the first signal does to the work's task, what the second does, and so on;
            later ones do nothing.

    Raises:
        asyncio.CancelledError: the task was cancelled.
    """
    import asyncio

    left = list(stops)
    waiting: list[Callable[[asyncio.Task[_T]], object]] = []
    wake: Callable[[], object] = lambda: None  # noqa: E731 - until there is a loop

    def note(_number: int, _frame: FrameType | None) -> None:
        if left:
            waiting.append(left.pop(0))
            # A loop that is closed has no work left to stop.
            with suppress(RuntimeError):
                wake()

    async def working() -> _T:
        nonlocal wake
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)

        def stop_task() -> None:
            while waiting:
                waiting.pop(0)(task)

        wake = partial(loop.call_soon_threadsafe, stop_task)
        stop_task()
        return await task

    # Not asyncio's signal handlers: the loop closes its pipe before it restores the old handler,
    # and a signal in between would print a traceback, or block the process.
    earlier = {}
    with suppress(ValueError):
        for number in _SIGNALS:
            earlier[number] = signal.signal(number, note)
    try:
        return asyncio.run(working())
    finally:
        stopped = len(left) < len(stops)
        for number, handler in earlier.items():
            if stopped and number == signal.SIGINT:
                # Python might raise it once more while it is being ignored.
                with signals_held(number):
                    signal.signal(number, signal.SIG_IGN)
            else:
                signal.signal(number, handler)


def in_loop() -> bool:
    """Whether an event loop runs in this thread."""
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C and SIGTERM back until the end of the block, so that it closes everything.
    Outside the main thread, and where a running event loop handles them, nothing is changed."""
    waiting: list[int] = []
    earlier = {}
    with suppress(ValueError):
        for number in () if in_loop() else _SIGNALS:
            earlier[number] = signal.signal(number, lambda number, _: waiting.append(number))
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
        for first in waiting[:1]:
            signal.raise_signal(first)


@contextmanager
def signals_held(*numbers: int) -> Iterator[None]:
    """Block signals until the end of the block, here and in processes that are started in it, where
    the system can."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
