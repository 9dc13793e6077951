"""Options on how fast a batch goes, and how much of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])
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
