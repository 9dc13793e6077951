"""Options that several commands share, and how they say things."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pearl.source import InputError

if TYPE_CHECKING:
    from pearl.library import Library

_F = TypeVar("_F", bound=Callable[..., Any])


class NoAnswer(click.ClickException):
    """A command that did its work and has nothing to show for it: exit code 1."""

    exit_code = 1


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


def runs_option(command: _F) -> _F:
    """``--runs``."""
    return click.option(
        "--runs",
        default=str(Path(".pearl") / "runs"),
        show_default=True,
        metavar="DIR",
        help="Where runs are kept.",
    )(command)


def output_option(command: _F) -> _F:
    """``-o``."""
    return click.option(
        "-o", "--output", default="", metavar="FILE", help="Write to a file instead of the screen."
    )(command)


def load(libraries: tuple[str, ...]) -> Library:
    """The chosen library: from the command line, else from ``[tool.pearl]``, else the default."""
    from pearl.library import load_library

    if libraries:
        return load_library(*libraries)
    from pearl.cli.config import read_config

    return load_library(*read_config().library)


def emit(text: str, output: str = "") -> None:
    """Print a text, or write it to a file as a whole or not at all."""
    if output:
        write(output, text)
    else:
        click.echo(text, nl=not text.endswith("\n"))


def emit_json(data: Any) -> None:  # noqa: ANN401 - any JSON
    """Print JSON data."""
    click.echo(json.dumps(data, ensure_ascii=False, indent=2))


def write(path: str, text: str) -> None:
    """Write a file so that it is there as a whole or as it was.

    Raises:
        InputError: it cannot be written.
    """
    target = Path(path)
    try:
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
        with tempfile.NamedTemporaryFile(
            "w", dir=target.parent, prefix=f".{target.name}.", delete=False, encoding="utf-8",
            newline="",
        ) as part:  # fmt: skip
            part.write(text)
        try:
            os.chmod(part.name, mode)
            os.replace(part.name, target)
        except OSError:
            os.unlink(part.name)
            raise
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror}): name a file in a folder that exists."
        ) from None
