"""What cannot be used, told in one line that says what to do.

Apart from `pearl.lang.source`, whose imports would be half of what `pearl --help` loads.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

MOST = 1e12
"""What no number that a person gives exceeds: dollars, tokens, or seconds."""

NAMED = 200
"""How many lines of a file that cannot be used are named: more than a person mends by hand."""


class PortableError(Exception):
    """An error that comes whole out of another process, whatever it is made from."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _made_again, (type(self), self.args, self.__dict__)


def _made_again(kind: type[PortableError], args: tuple[Any, ...], state: Any) -> PortableError:  # noqa: ANN401 - any error's
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class InputError(PortableError):
    """Input that cannot be used; the message is one line that says what to do."""


class UnreadableError(InputError):
    """A text of several that cannot be read, as the others are.

    Args:
        message: why, and what to do.
        name: its file, or its row of one, as `pearl.lang.source.Source` has names.
    """

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


def check_numbers(least: float = 0, most: float = MOST, **numbers: object) -> None:
    """See that numbers that a person gives by some names can be used.

    Args:
        least: the smallest that can.
        most: the largest.
        numbers: None for one that is not given.

    Raises:
        InputError: one is smaller or larger, or no number.
    """
    for name, number in numbers.items():
        if number is None:
            continue
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise InputError(f"{name} is {repr(number)[:40]}: give a number.")
        if not least <= number <= most:
            told = "out of range" if isinstance(number, int) and abs(number) > MOST else f"{number}"
            bound = f"above {most:,.0f}" if number > most else f"below {least}"
            raise InputError(f"{name} is {told}: give a number that is not {bound}.")


def check_whole(least: int = 0, most: float = MOST, **numbers: object) -> None:
    """See that whole numbers that a person gives by some names can be used.

    Args, and what is raised: as of `check_numbers`.
    """
    check_numbers(least, most, **numbers)
    for name, number in numbers.items():
        if isinstance(number, float):
            raise InputError(f"{name} is {number!r}: give a whole number.")


def install_command(extra: str) -> str:
    """The command that installs what a part of Pearl needs that is left out by default.

    It names the folder or address that Pearl was installed from: in an index its name may be
    another's.

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
        url, found = origin.get("url", ""), origin.get("vcs_info", {})
        at = found.get("requested_revision") or found.get("commit_id")
        if url.startswith("file:"):
            package = f"{url2pathname(urlsplit(url).path)}[{extra}]"
        elif url:
            below = f"#subdirectory={part}" if (part := origin.get("subdirectory")) else ""
            address = f"{found['vcs']}+{url}{f'@{at}' if at else ''}" if found else url
            package += f" @ {address}{below}"
    return f"pip install {quote(package)}"


class LinesError(InputError):
    """Several lines of a file, or several files, cannot be used.

    Args:
        told: a sentence for each of them, or of a file's lines for the first, which names it.
        more: how many others there are.
    """

    def __init__(self, messages: Sequence[str], more: int = 0) -> None:
        rest = f"{more:,} more of its lines cannot be used."
        self.lines = (*messages, *([rest] if more else []))
        super().__init__(" ".join(self.lines))


def refuse(problems: Sequence[InputError | str]) -> None:
    """Raise the first problems of a file's lines, and how many others there are."""
    if problems:
        raise LinesError(list(map(str, problems[:NAMED])), len(problems[NAMED:]))
