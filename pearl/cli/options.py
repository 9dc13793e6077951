"""Options that several commands share, and how they say things.

Options on how fast a batch goes, and how much of it.

What the methods of an evaluation are given beside a library and demonstrations.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pearl.lang.source import InputError
from pearl.lang.text import json_text, printable_lines

if TYPE_CHECKING:
    from pearl.commaqa.search import Way
    from pearl.evaluate.methods.base import Kit
    from pearl.lang.library import Library
    from pearl.lang.source import Source
    from pearl.prompts.calls import Demonstration
    from pearl.strategies.registry import Named


_OF_TRACE = re.compile(r"(?:#[^\n]*\n){1,8}?# library: ([^\n]+)")
"""How a trace says which actions it calls."""

_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")


def library_option(command: _F) -> _F:
    """``--library``, repeatable."""
    return click.option(
        "--library",
        "libraries",
        multiple=True,
        metavar="FILE",
        help="Action library: a .actions file, the paper's NAME(ARGS) # definition text, "
        "or a shipped one (core, quality). Repeatable; later ones win. Default: core and quality.",
    )(command)


def options_option(command: _F) -> _F:
    """``--option``, repeatable."""
    return click.option(
        "--option",
        "options",
        multiple=True,
        metavar="TEXT",
        help="An answer to choose from; give at least two.",
    )(command)


def json_option(command: _F) -> _F:
    """``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines.")(
        command
    )


def model_option(command: _F) -> _F:
    """``--model``."""
    return click.option(
        "--model",
        default="",
        metavar="NAME",
        help="A model of the endpoint, offline, or recorded:FILE. Default: PEARL_MODEL, or "
        "offline where no endpoint is set.",
    )(command)


def context_options(command: _F) -> _F:
    """``--context`` and ``--window``."""
    policy = click.option(
        "--context",
        type=click.Choice(["auto", "full", "chunk", "retrieve"]),
        default="auto",
        show_default=True,
        help="A document longer than the model's window: full is an error, chunk reads it in "
        "parts and merges, retrieve reads the passages that bear on a step, auto is full where "
        "it fits and else chunk.",
    )
    window = click.option(
        "--window",
        type=click.IntRange(1),
        metavar="TOKENS",
        help="The model's window. Default: PEARL_CONTEXT, or what is known of the model.",
    )
    return policy(window(command))


def strategy_option(command: _F) -> _F:
    """``--strategy``."""
    return click.option(
        "--strategy",
        default="pearl",
        show_default=True,
        metavar="NAME",
        help="How: pearl (a plan first), decomp (a step at a time), fsm1, fsm2 (a state machine), "
        "rebel (recursion with tools) or react (search, look up, finish).",
    )(command)


def budget_options(command: _F) -> _F:
    """``--width``, ``--depth`` and ``--calls``, for decompositions."""
    for name, metavar, help in (
        (
            "--calls",
            "N",
            "Calls a question may take, at most. decomp, react and tmn-model: of the model; tmn "
            "and tmn-model: of agents; fsm1, fsm2 and rebel: of the model, below their own "
            "limits of 40 and 80.",
        ),
        (
            "--depth",
            "N",
            "decomp: decompositions within each other, at most; rebel: sub-questions within each "
            "other, below its own limit of 3; tmn and tmn-model: hops.",
        ),
        ("--width", "N", "tmn and tmn-model: proposals that count after each hop, at most."),
    ):
        option = click.option(name, type=click.IntRange(1), metavar=metavar, help=help)
        command = option(command)
    return command


def given_of(make: Callable[..., _T], **options: Any) -> _T:  # noqa: ANN401 - as `make` takes them
    """What is made with those options that were given."""
    return make(**{name: one for name, one in options.items() if one is not None})


def demonstrations_option(command: _F) -> _F:
    """``--demos``, or ``--demonstrations``."""
    return click.option(
        "--demos",
        "--demonstrations",
        "demos",
        default="",
        metavar="DIR",
        help="A folder of example plans for the planner, as pearl refine fills it, or the name of "
        "one that ships with Pearl. Default: those that ship with Pearl, for the data set.",
    )(command)


def store_option(command: _F) -> _F:
    """``--store``."""
    return click.option(
        "--store",
        default="",
        metavar="PLACE",
        help="Where runs and replies are kept: a file, or postgresql+psycopg://… for a team. "
        f"Default: PEARL_STORE, or {Path('.pearl') / 'store.db'}.",
    )(command)


def cache_option(command: _F) -> _F:
    """``--no-cache``."""
    return click.option(
        "--no-cache",
        is_flag=True,
        help="Make every call anew, and keep its reply for this run only.",
    )(command)


def output_option(command: _F) -> _F:
    """``-o``."""
    return click.option(
        "-o", "--output", default="", metavar="FILE", help="Write to a file, not the screen."
    )(command)


def load(libraries: tuple[str, ...]) -> Library:
    """The chosen library: from the command line, else from ``[tool.pearl]``, else the default."""
    from pearl.lang.library import load_library

    if libraries:
        return load_library(*libraries)
    from pearl.cli.inputs import read_config

    return load_library(*read_config().library)


def load_for(source: Source, libraries: tuple[str, ...]) -> Library:
    """The chosen library; where none is named, a trace's own, if it is one that ships."""
    from pearl.lang.source import shipped_actions

    said = None if libraries else _OF_TRACE.match(source.text)
    names = tuple(one.strip() for one in said[1].split(",")) if said else ()
    own = bool(names) and shipped_actions().keys() >= set(names)
    return load(names if own else libraries)


def choose_strategy(
    name: str, libraries: tuple[str, ...], demonstrations: str
) -> tuple[Named, Library, tuple[Demonstration, ...]]:
    """A strategy, the actions it works with, and the plans it is shown.

    Args:
        name: as after ``--strategy``.
        libraries: as after ``--library``.
        demonstrations: as after ``--demos``.

    Raises:
        InputError: there is no such strategy, or it takes none of these.
    """
    from pearl.strategies.planner import choose_demonstrations, load_demonstrations
    from pearl.strategies.registry import find_strategy

    named = find_strategy(name)
    if not named.demonstrations:
        if libraries:
            raise InputError(f"{named.name} has actions of its own: leave --library out.")
        if demonstrations:
            raise InputError(f"{named.name} is shown no plans: leave --demos out.")
        return named, load(named.libraries), ()
    library = load(libraries or named.libraries)
    shown = load_demonstrations(demonstrations, named.demonstrations)
    return named, library, choose_demonstrations(shown, library)


def emit(text: str, output: str = "") -> None:
    """Print a text, or write it to a file as a whole or not at all.

    On a terminal nothing in the text can steer it; elsewhere every character arrives.
    """
    if output and output != "-":
        write(output, text)
        return
    text = text if text.endswith("\n") else f"{text}\n"
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


def counted(number: int, noun: str) -> str:
    """``1 error``, ``2 errors``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def check_output(path: str, *read: str) -> None:
    """Make sure that a file can be written, before work is done for it.

    Args:
        path: the file; empty or ``-`` for the screen.
        read: files that are read, which it would take the place of.

    Raises:
        InputError: it cannot.
    """
    target = Path(path)
    if path in ("", "-"):
        return
    for one in read:
        if one and Path(one).exists() and target.exists() and target.samefile(one):
            raise InputError(f"{path} is what is read: name another file to write.")
    if target.is_dir():
        raise InputError(f"{path} is a directory: name a file in it.")
    if not target.parent.is_dir():
        raise InputError(f"The folder {target.parent} does not exist: make it, or name another.")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise InputError(f"{path} cannot be written: name a file in a folder of your own.")


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
            _replace(given.resolve(), data)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror}): name a file in a folder of your own."
        ) from None


def _replace(target: Path, data: bytes) -> None:
    part = target.with_name(f".{target.name[:40]}.{secrets.token_hex(4)}")
    try:
        with part.open("xb") as file:
            file.write(data)
        if target.exists():
            part.chmod(target.stat().st_mode & 0o777)
        part.replace(target)
    except OSError:
        part.unlink(missing_ok=True)
        raise


_UNITS = {"k": 1_000, "m": 1_000_000, "b": 1_000_000_000}


class Amount(click.ParamType[int]):
    """A whole number, with k, M or B for thousands, millions, billions: ``2M``."""

    name = "number"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:  # noqa: ANN401 - as click's
        if isinstance(value, int):
            return value
        text = value.strip().lower().replace(",", "").replace("_", "")
        unit = _UNITS.get(text[-1:], 1)
        try:
            number = float(text[:-1] if unit > 1 else text) * unit
            if number >= 1:
                return int(number)
        except (ValueError, OverflowError):
            pass
        self.fail(f"{value} is no number above 0: write it as 500, 20k or 2M.", param, ctx)


class Concurrency(click.ParamType[int]):
    """``auto``, or a number of calls."""

    name = "auto|N"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:  # noqa: ANN401 - as click's
        if isinstance(value, int):
            return value
        if value.strip().lower() == "auto":
            return 0
        if value.strip().isdigit() and 1 <= int(value) <= 10_000:
            return int(value)
        self.fail(f"{value} is neither auto nor a number from 1 to 10000.", param, ctx)


def price_options(command: _F) -> _F:
    """``--prices``."""
    return click.option(
        "--prices", default="", metavar="FILE",
        help="A table of prices over the one that ships with Pearl (docs/prices.md). "
        "Default: PEARL_PRICES.",
    )(command)  # fmt: skip


def limits_options(command: _F) -> _F:
    """``--max-cost``, ``--max-tokens``, ``--concurrency`` and their like."""
    options = (
        click.option(
            "--max-cost", type=click.FloatRange(0, min_open=True), metavar="DOLLARS",
            help="Stop before the call that would take the run over this.",
        ),
        click.option(
            "--max-tokens", type=Amount(), metavar="N",
            help="The same in tokens, read and written: 500k, 2M.",
        ),
        click.option(
            "--concurrency", type=Concurrency(), default="auto", show_default=True,
            metavar="auto|N", help="Calls under way at a time, at most; fewer while the endpoint "
            "turns calls away.",
        ),
        click.option(
            "--rpm", type=Amount(), metavar="N", help="Requests a minute, at most.",
        ),
        click.option(
            "--tpm", type=Amount(), metavar="N", help="Tokens a minute, at most.",
        ),
        click.option(
            "--max-wait", type=click.FloatRange(0), default=120.0, show_default=True,
            metavar="SECONDS", help="The longest pause that an endpoint may ask for; a call that "
            "is asked to wait longer fails.",
        ),
        click.option(
            "--grace", type=click.FloatRange(0), default=30.0, show_default=True,
            metavar="SECONDS", help="What calls under way get to finish after Ctrl-C.",
        ),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def kit_options(command: _F) -> _F:
    """``--learned``, ``--search``, ``--index``, ``--tools`` and budgets."""
    for option in (
        budget_options,
        click.option(
            "--tools", default="", metavar="FILE",
            help="For rebel: the tools that it may call (docs/tools.md). Default: a search of the "
            "question's own document.",
        ),
        click.option(
            "--index", default="", metavar="DIR",
            help="Look passages up in this index, as pearl index makes it. Default: in the "
            "question's own document.",
        ),
        click.option(
            "--search", type=click.Choice(["greedy", "best-first"]), default="best-first",
            show_default=True,
            help="For CommaQA: the best proposal at each hop, or best-first search.",
        ),
        click.option(
            "--learned", default="", metavar="FILE",
            help="For CommaQA: what pearl learn commaqa wrote.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def equipped(
    kit: Kit,
    learned: str,
    search: Way,
    index: str,
    tools: str,
    width: int | None,
    depth: int | None,
    calls: int | None,
    **others: Any,  # noqa: ANN401 - options of the same command that are not of the kit
) -> tuple[Kit, dict[str, Any]]:
    """A kit with what the options of `kit_options` name, and the options that are not theirs.

    Raises:
        InputError: one of them cannot be used.
    """
    from pearl.commaqa.search import Budget
    from pearl.evaluate.context import load_search, load_tooling
    from pearl.models.embeddings import choose_embedding
    from pearl.retrieval.index import open_index
    from pearl.strategies.registry import Limits

    budget = given_of(Budget, width=width, depth=depth, calls=calls)
    found = replace(
        kit,
        search=load_search(learned, search, budget),
        retriever=open_index(index) if index else None,
        limits=given_of(Limits, depth=depth, calls=calls),
        tools=load_tooling(tools),
        embed=choose_embedding(),
    )
    return found, others
