"""Errors for input that cannot be used: each message is one line that says what to do.

They are not in `pearl.lang.source`, whose imports would be half of what `pearl --help` loads.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

MOST = 1e12
"""The largest number that a person may give, of dollars, tokens or seconds."""

NAMED = 200
"""The most unusable lines of a file that are named: more than a person mends by hand."""


class PortableError(Exception):
    """An error that can be pickled, and so sent to another process, whatever its arguments are."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).__new__, (type(self), *self.args), self.__dict__


class InputError(PortableError):
    """Input that cannot be used; the message is one line that says what to do."""


class UnreadableError(InputError):
    """One of several texts cannot be read; the others are read all the same.

    Args:
        message: why, and what to do.
        name: its file, or its row of one, as `pearl.lang.source.Source` has names.
    """

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


def check_numbers(least: float = 0, most: float = MOST, **numbers: object) -> None:
    """Check numbers that a person gave.

    Args:
        least: the smallest number that is allowed.
        most: the largest number that is allowed.
        numbers: the numbers, by their names in messages; None for one that was not given.

    Raises:
        InputError: a number is out of range, or a value is no number.
    """
    for name, number in numbers.items():
        if number is None:
            continue
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise InputError(f"{name} is {repr(number)[:40]}: give a number.")
        if number != number:
            raise InputError(f"{name} is nan: give a number.")
        if not least <= number <= most:
            huge = isinstance(number, int) and abs(number) > MOST
            shown = "out of range" if huge else f"{number}"
            bound = f"above {most:,.0f}" if number > most else f"below {least}"
            raise InputError(f"{name} is {shown}: give a number that is not {bound}.")


def check_whole(least: int = 0, most: float = MOST, **numbers: object) -> None:
    """Check whole numbers that a person gave, as `check_numbers` does; a float is refused too."""
    check_numbers(least, most, **numbers)
    for name, number in numbers.items():
        if isinstance(number, float):
            raise InputError(f"{name} is {number!r}: give a whole number.")


def install_command(extra: str) -> str:
    """The command that installs what a part of Pearl needs that is left out by default.

    It names the folder or address that Pearl was installed from, because the name ``pearl`` may
    belong to another package in an index.

    Args:
        extra: what pyproject.toml calls the part, as ``corpus``.
    """
    from importlib.metadata import PackageNotFoundError, distribution
    from json import loads
    from shlex import quote
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    package = f"pearl[{extra}]"
    with suppress(PackageNotFoundError):
        # Written by every installer, where a package is from no index (PEP 610).
        origin = loads(distribution("pearl").read_text("direct_url.json") or "{}")
        url, vcs = origin.get("url", ""), origin.get("vcs_info", {})
        at = vcs.get("requested_revision") or vcs.get("commit_id")
        if url.startswith("file:"):
            package = f"{url2pathname(urlsplit(url).path)}[{extra}]"
        elif url:
            below = f"#subdirectory={part}" if (part := origin.get("subdirectory")) else ""
            address = f"{vcs['vcs']}+{url}{f'@{at}' if at else ''}" if vcs else url
            package += f" @ {address}{below}"
    return f"pip install {quote(package)}"


class LinesError(InputError):
    """Several lines of a file, or several files, cannot be used.

    Args:
        messages: a sentence for each of them, or for the first lines of a file, which it names.
        more: how many other lines of the file cannot be used.
    """

    def __init__(self, messages: Sequence[str], more: int = 0) -> None:
        rest = f"{more:,} more of its lines cannot be used."
        self.lines = (*messages, *([rest] if more else []))
        super().__init__(" ".join(self.lines))


def refuse(problems: Sequence[InputError | str]) -> None:
    """Raise a `LinesError` of the first problems with a file's lines; nothing if there is none."""
    if problems:
        raise LinesError(list(map(str, problems[:NAMED])), len(problems[NAMED:]))
