"""Work in an event loop of its own, which Ctrl-C stops in good order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any, TypeVar

_T = TypeVar("_T")


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


def _ignore(number: signal.Signals) -> None:
    """Heed a signal no more; one that comes on the way is held back, or Python tells of it."""
    masks = hasattr(signal, "pthread_sigmask")
    if masks:
        signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    signal.signal(number, signal.SIG_IGN)
    if masks:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
