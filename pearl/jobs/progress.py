"""Long work before a person: how far it is, as a bar on a terminal or in a notebook, and Ctrl-C,
which stops it in good order."""

from __future__ import annotations

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
    # While a cell is awaited, a notebook's kernel works on the bar's widget when its pages answer:
    # a thread that draws beside it puts pictures outside the widget, where they stay.
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


def run_until_stopped(
    work: Coroutine[Any, Any, _T],
    stops: Sequence[Callable[[asyncio.Task[_T]], object]],
    signals: Sequence[signal.Signals] = (signal.SIGINT,),
) -> _T:
    """Run a coroutine to its end, as `asyncio.run` does, or until signals stop it.

    Who is impatient presses Ctrl-C several times. Once it has stopped something, it is not
    heeded after the end either: a program on its way out is to keep what was done.

    Args:
        work: what to run.
        stops: what the first signal does to the work's task, what the second does, and so on;
            later ones do nothing.
        signals: which ones are heeded. Outside the main thread none is.

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

        def heed() -> None:
            while waiting:
                waiting.pop(0)(task)

        wake = partial(loop.call_soon_threadsafe, heed)
        heed()
        return await task

    # Not the loop's own handlers: it closes its pipe before it gives a signal back, and one
    # that comes between the two is told as a traceback, or blocks the process.
    earlier = {}
    with suppress(ValueError):
        for number in signals:
            earlier[number] = signal.signal(number, note)
    try:
        return asyncio.run(working())
    finally:
        stopped = len(left) < len(stops)
        for number, handler in earlier.items():
            if stopped and number == signal.SIGINT:
                _ignore(number)
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
    """Lets Ctrl-C and SIGTERM wait until the end of the block: what it closes is closed whole.
    Outside the main thread, and where a running loop hears of them, nothing is changed."""
    waiting: list[int] = []
    earlier = {}
    with suppress(ValueError):
        for number in () if in_loop() else (signal.SIGINT, signal.SIGTERM):
            earlier[number] = signal.signal(number, lambda number, _: waiting.append(number))
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
        for came in waiting[:1]:
            signal.raise_signal(came)


def _ignore(number: signal.Signals) -> None:
    """Heed a signal no more; one that comes on the way is held back, or Python tells of it."""
    masks = hasattr(signal, "pthread_sigmask")
    if masks:
        signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    signal.signal(number, signal.SIG_IGN)
    if masks:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
