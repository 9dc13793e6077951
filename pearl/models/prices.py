"""What models cost, and how much they can read: a table that a person can edit."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from pearl.lang.source import InputError
from pearl.models.base import Usage

_DATED = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8})$")


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars for a million tokens, and tokens that fit.

    Args:
        input: for tokens read.
        output: for tokens written.
        cached_input: for tokens read that the endpoint had kept; by default
            as ``input``.
        window: tokens that a prompt and its reply may have; None where it is
            not known.
    """

    input: float
    output: float
    cached_input: float | None = None
    window: int | None = None

    def cost(self, usage: Usage) -> int:
        """What tokens cost, in millionths of a dollar, rounded up.

        Tokens that were kept count among those read, as endpoints report them.
        """
        kept = min(usage.cached_tokens, usage.prompt_tokens)
        cached = self.input if self.cached_input is None else self.cached_input
        dollars_a_million = (
            (usage.prompt_tokens - kept) * self.input
            + kept * cached
            + usage.completion_tokens * self.output
        )
        # Dollars for a million tokens are millionths of a dollar for one.
        return -int(-dollars_a_million // 1)


FREE = Price(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Prices:
    """A table of prices by model."""

    models: Mapping[str, Price]

    def get(self, model: str) -> Price | None:
        """A model's price, or None where it is not known: nothing is guessed.

        A name with a date or a provider in front is looked up without them.
        """
        if model == "offline" or model == "recorded" or model.startswith("recorded:"):
            return FREE
        for name in (model, model.rpartition("/")[2]):
            for candidate in (name, _DATED.sub("", name)):
                if candidate in self.models:
                    return self.models[candidate]
        return None


def load_prices(extra: Path | None = None) -> Prices:
    """The table that ships with Pearl, and a person's own over it.

    Args:
        extra: their file; by default what ``PEARL_PRICES`` names.

    Raises:
        InputError: their file cannot be used.
    """
    shipped = (files("pearl.models") / "models.toml").read_text(encoding="utf-8")
    models = _read(shipped, "models.toml")
    named = os.environ.get("PEARL_PRICES", "").strip()
    own = extra or (Path(named) if named else None)
    if own is not None:
        try:
            text = own.read_text(encoding="utf-8")
        except (OSError, ValueError):
            raise InputError(f"{own} cannot be read: name a table of prices.") from None
        models.update(_read(text, str(own)))
    return Prices(models)


def dollars(millionths: int) -> str:
    """Money for a person: cents from a dollar on, and as much as there is below."""
    amount = millionths / 1e6
    return f"${amount:,.2f}" if amount >= 1 or amount == 0 else f"${amount:.4f}"


def _read(text: str, name: str) -> dict[str, Price]:
    try:
        table = tomllib.loads(text).get("models")
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name} cannot be read as TOML: {error}.") from None
    if not isinstance(table, dict) or not table:
        raise InputError(f'{name} has no prices: write [models."NAME"] and input = 0.5 below it.')
    return {model: _price(row, f"{name}, {model}") for model, row in table.items()}


def _price(row: Any, where: str) -> Price:  # noqa: ANN401 - any TOML
    known = [field.name for field in fields(Price)]
    if not isinstance(row, dict):
        raise InputError(f"{where} is no table: write input = 0.5 and output = 1.5 in it.")
    for key, value in row.items():
        if key not in known:
            raise InputError(f"{where} has no key {key}: use {', '.join(known)}.")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
            raise InputError(f"{where}: {key} is to be a number from 0.")
        if key == "window" and (not isinstance(value, int) or value < 1):
            raise InputError(f"{where}: window is a whole number of tokens.")
    for key in ("input", "output"):
        if key not in row:
            raise InputError(f"{where} lacks {key}: dollars for a million tokens.")
    return Price(**row)
