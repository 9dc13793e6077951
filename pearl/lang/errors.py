"""What cannot be used, told in one line that says what to do.

Apart from `pearl.lang.source`, whose imports would be half of what `pearl --help` loads.
"""

from __future__ import annotations

from collections.abc import Sequence

NAMED = 200
"""How many lines of a file that cannot be used are named: more than a person mends by hand."""


class InputError(Exception):
    """Input that cannot be used; the message is one line that says what to do."""


def check_numbers(least: int = 0, **numbers: object) -> None:
    """See that numbers that a person gives by some names can be used.

    Args:
        least: the smallest that can.
        numbers: None for one that is not given.

    Raises:
        InputError: one is smaller, or no number.
    """
    for name, number in numbers.items():
        if number is not None and not (isinstance(number, int | float) and number >= least):
            told = f"{number:g}" if isinstance(number, int | float) else repr(number)
            raise InputError(f"{name} is {told}: give a number that is not below {least}.")


def install_command(extra: str) -> str:
    """The command that installs what a part of Pearl needs that is left out by default.

    Args:
        extra: what pyproject.toml calls the part, as ``corpus``.
    """
    return f"pip install 'pearl[{extra}]'"


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
