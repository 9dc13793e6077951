"""What commands write: texts, JSON, files, and progress."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from io import StringIO
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pearl.cli import NoAnswer, Stopped
from pearl.cli.inputs import read_config
from pearl.jobs.progress import bar, is_watched, lines, run_until_stopped
from pearl.lang.errors import InputError, install_command
from pearl.lang.output_files import check_kind, check_writable, write
from pearl.lang.source import Source
from pearl.lang.text import json_text, printable, printable_lines

if TYPE_CHECKING:
    from pearl.cli.options import Options
    from pearl.models.base import Model

_T = TypeVar("_T")


def emit(text: str | bytes, output: str = "") -> None:
    """Print a text, or write it to a file atomically.

    On a terminal control characters are removed; elsewhere the text is unchanged.
    """
    if output and output != "-":
        write(output, text)
        return
    if isinstance(text, bytes):
        if not on_terminal():
            click.echo(text, nl=False)
            return
        text = text.decode("utf-8", "replace")
    show(text if text.endswith("\n") else f"{text}\n")


def show(text: str) -> None:
    """Print a piece of a text, as `emit` prints the whole."""
    if on_terminal():
        click.echo(printable_lines(text), nl=False)
    else:
        # Without `color`, click would remove escape sequences from the text.
        click.echo(text, nl=False, color=True)


def on_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def require(command: str, *modules: str) -> None:
    """Check that the modules that only one command needs are installed.

    Raises:
        InputError: a module is missing.
    """
    from importlib.util import find_spec

    if missing := [name for name in modules if find_spec(name) is None]:
        raise InputError(f"pearl {command} needs {', '.join(missing)}: {install_command(command)}.")


def await_program(command: str, program: str) -> None:
    """Prepare a command that another program should start; on a terminal, say that it waits.

    Raises:
        InputError: there is no standard input or output.
    """
    if sys.stdin is None or sys.stdout is None:
        raise InputError(f"pearl {command} has no standard input: have {program} start it.")
    if sys.stdin.isatty():
        waits = f"pearl {command} waits for {program} on standard input; Ctrl-C ends it."
        click.echo(waits, err=True)


def diff_of(before: Source, after: str) -> str:
    """The changes in a text as a unified diff for ``patch``; empty where there are none."""
    from difflib import unified_diff

    # Line ends are kept, as they may be all that changes.
    old, new = (list(StringIO(text, newline="\n")) for text in (before.text, after))
    changes = unified_diff(old, new, before.name, before.name)
    unended = "\n\\ No newline at end of file\n"
    return "".join(line if line.endswith("\n") else f"{line}{unended}" for line in changes)


def show_diff(diff: str) -> None:
    """Print a diff: coloured on a terminal, else unchanged, as for ``patch``."""
    if not on_terminal():
        show(diff)
        return
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in diff.splitlines():
        click.echo(click.style(printable(line), fg=colours.get(line[:1])))


MOST = 20_000
"""The most characters of a text that are printed on a terminal."""


def on_screen(text: str, whole: str) -> str:
    """A text; if it is too long for a terminal, its beginning, and a line that says where the whole
    text is."""
    if len(text) <= MOST or not on_terminal():
        return text
    end = text.rfind("\n", MOST // 2, MOST)
    end = end if end >= 0 else MOST
    return f"{text[:end]}\n… {len(text) - end:,} more characters: {whole}"


def emit_json(data: Any) -> None:  # noqa: ANN401 - any JSON
    """Print JSON data."""
    click.echo(json_text(data), nl=False, color=True)


def tell(data: Any, as_json: bool, lines: Iterable[str]) -> None:  # noqa: ANN401 - any JSON
    """Print data as JSON, or the lines that say the same for people."""
    if as_json:
        emit_json(data)
        return
    for line in lines:
        click.echo(line)


def deliver(options: Options, text: Callable[[], str], data: Callable[[], Any]) -> None:
    """Write the result of a command: a text to the output file or the screen, or JSON.

    Args:
        options: the command's options; with ``--json`` the screen gets JSON instead of the text.
        text: makes the text.
        data: makes the same result as JSON data.
    """
    if options.output not in ("", "-") or not options.as_json:
        emit(text(), options.output)
    if options.as_json:
        emit_json(data())


def check_ending(path: str, endings: str, what: str) -> None:
    """Check that a file's name has one of these endings, or none.

    Raises:
        InputError: it has another ending.
    """
    if (ending := Path(path).suffix.lower()) not in ("", *endings.split()):
        named = ", ".join(endings.split())
        raise InputError(f"{path}: {what} is not written as {ending}: end the name in {named}.")


def check_output(path: str, noun: str, *more: str) -> None:
    """Check that an output file can be written, before any work is done.

    It must not be another argument of the command, or the store; and an existing file must be of
    the same kind.

    Args:
        path: the file; empty or ``-`` for the screen.
        noun: what is written, as `check_kind` takes it; empty where that is checked elsewhere.
        more: files that are read but are not among the arguments and options.

    Raises:
        InputError: the file cannot be written, or must not be.
    """
    from pearl.store.database import address, store_files

    if path in ("", "-"):
        return
    context = click.get_current_context()
    source, default = context.get_parameter_source, click.core.ParameterSource.DEFAULT
    names = [name for name in context.params if name != "question" and source(name) is not default]
    values = (context.params[name] for name in names)
    lists = (value if isinstance(value, tuple) else (value,) for value in values)
    texts = [text for items in lists for text in items if isinstance(text, str)]
    if own := next((text for text in texts if text in (path, f"{path}/")), ""):
        # Its own option has this value too; a folder's name may end in a slash there.
        texts.remove(own)
    store = store_files(address(str(context.params.get("store") or "")))
    models = [text.removeprefix("recorded:") for text in texts]
    check_writable(path, (*texts, *models, *read_config().library, *more), store)
    if noun:
        check_kind(path, noun)


def follow_up(command: str, run: str) -> str:
    """The command that shows more of a run, with the store option of this command."""
    from pearl.store.database import without_password

    store = click.get_current_context().params.get("store")
    place = f" --store {shlex.quote(without_password(store))}" if store else ""
    return f"pearl {command} {run}{place}"


def settle(
    work: Callable[..., Coroutine[Any, Any, _T]], model: Model, options: Options
) -> tuple[_T, str]:
    """Run a function of `pearl.api` to its end, with progress on a terminal and errors as one line.

    The first Ctrl-C or SIGTERM stops it; later ones do not interrupt the closing of the store.

    Args:
        work: the function, which takes the parameters that those of `pearl.api` share.
        model: the model that answers.
        options: the command's options, with its store.

    Returns:
        The result, and the run's name.

    Raises:
        NoAnswer: the model or a step failed.
        Stopped: the user stopped it.
    """
    import asyncio

    from pearl.models.base import ModelError
    from pearl.runtime.loop import RunError
    from pearl.store.database import address

    data: dict[str, str] = {}

    def begun(name: str) -> None:
        data["run"] = name

    def done() -> str:
        if not data:
            return ""
        return f" What was done until then: {follow_up('runs show', data['run'])}"

    place, cache = address(options.store), not options.no_cache
    try:
        with progress(quiet=options.as_json, model=model) as watch:
            doing = work(model=model, store=place, cache=cache, watch=watch, began=begun)
            return run_until_stopped(doing, [asyncio.Task.cancel]), data.get("run", "")
    except ModelError as error:
        raise NoAnswer(str(error), data) from None
    except RunError as error:
        # Failures for these reasons come before any call, so there is nothing to show.
        asked = not any(failure.reason in ("context", "value") for failure in error.failures[:1])
        raise NoAnswer(f"{error}{done() if asked else ''}", data) from None
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise Stopped(f"Stopped.{done()}", data) from None


@contextmanager
def progress(*, quiet: bool, model: Model) -> Iterator[Callable[[str, bool], None] | None]:
    """Show which calls are under way, and how far a model in this process has read: as a bar on a
    terminal, else as a line now and then.

    Yields:
        A function to call with the path of each call when it starts (False)
        and when it ends (True); None where nothing is shown.
    """
    if quiet or sys.stderr is None:
        yield None
        return
    from pearl.models.routing import members

    columns = ("{task.description}", "bar", "count", "calls", "elapsed")
    with bar(*columns, every=0) if is_watched() else nullcontext(lines()) as update:
        update(description="planning", total=0)
        under_way: dict[str, None] = {}
        counts = [0, 0]

        def watch(path: str, done: bool) -> None:
            if done:
                under_way.pop(path, None)
            else:
                under_way[path] = None
            counts[done] += 1
            shown = ", ".join(under_way) or "finishing"
            update(total=counts[0], completed=counts[1], description=shown[:48])

        def on_progress(path: str, share: float) -> None:
            reading = f"{path[:34]}: {share:.0%} read" if share < 1 else f"{path[:37]}: writing"
            update(description=reading)

        for member in members(model):
            if hasattr(member, "on_progress"):
                member.on_progress = on_progress
        yield watch


@contextmanager
def counting(noun: str, total: int) -> Iterator[Callable[[], None]]:
    """A progress bar for work with many items; text printed meanwhile goes above it.

    Args:
        noun: what the items are, in the plural.
        total: how many items there are; with 0 nothing is shown.

    Yields:
        A function to call when an item is done.
    """
    if not total:
        yield lambda: None
        return
    with bar("bar", "count", noun, "elapsed", above=on_terminal()) as update:
        done = count(1)
        yield lambda: update(total=total, completed=next(done))
