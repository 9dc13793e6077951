"""A bar while a model works, on a terminal's error stream; elsewhere nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(*, quiet: bool) -> Iterator[Callable[[str, bool], None] | None]:
    """Shows which calls are under way.

    Yields:
        A function to tell the path of each call when it starts (False) and
        when it ends (True), or None where there is nobody to see it.
    """
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

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

        yield watch
