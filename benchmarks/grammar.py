"""Random texts of a plan grammar, sampled token by token, parse and check without an error.

Run as ``python -m benchmarks.grammar 300 --library core``. Each text is drawn from llguidance's
masks over the bytes, so that nothing but the grammar decides what comes next: a mistake of the
grammar shows as a finding of the checker.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pearl.lang.diagnostics import Severity
from pearl.lang.library import Library
from pearl.lang.parser import parse
from pearl.lint.checker import check

END = 256
"""The token that ends a text, past the bytes."""

_MOST = 20_000
"""Bytes after which a text is taken to be one that never ends."""


_KINDS = {
    **dict.fromkeys(b"0123456789", "digit"),
    **dict.fromkeys(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_", "letter"),
    **{byte: chr(byte) for byte in b'"#[]{}(),:\n '},
}
"""The kinds of bytes that matter to a plan's form."""


class _Bytes:
    """A vocabulary of the 256 bytes and an end, for llguidance."""

    eos_token_id = END
    bos_token_id = None
    tokens = (*(bytes([byte]) for byte in range(256)), b"<end>")
    special_token_ids = (END,)

    def __call__(self, text: str | bytes) -> list[int]:
        return list(text.encode() if isinstance(text, str) else text)


def matcher_of(lark: str) -> Any:
    """What follows a grammar in llguidance's dialect, byte by byte.

    Raises:
        ValueError: llguidance does not take the grammar.
    """
    from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

    tokenizer = LLTokenizer(TokenizerWrapper(_Bytes()))
    matcher = LLMatcher(tokenizer, LLMatcher.grammar_from_lark(lark))
    if matcher.is_error():
        raise ValueError(matcher.get_error())
    return matcher


def sampler(lark: str) -> Callable[[random.Random], str]:
    """A function that draws texts of a grammar, a byte at a time.

    Args:
        lark: the grammar in llguidance's dialect.

    Raises:
        ValueError: llguidance does not take the grammar, or a text comes to no end.
    """
    start = matcher_of(lark)

    def sample(random: random.Random) -> str:
        matcher = start.deep_copy()
        drawn = bytearray()
        while len(drawn) < _MOST:
            mask = matcher.compute_bitmask()
            allowed = [byte for byte in range(END) if mask[byte >> 3] >> (byte & 7) & 1]
            may_end = bool(mask[END >> 3] >> (END & 7) & 1)
            steps = [byte for byte in allowed if chr(byte).isdigit()]
            if may_end and (not allowed or random.random() < 0.1):
                return drawn.decode()
            if may_end and steps and random.random() < 0.9:
                allowed = steps
            byte = _pick(random, allowed)
            drawn.append(byte)
            if not matcher.consume_token(byte):
                raise ValueError(matcher.get_error())
        raise ValueError("a text comes to no end")

    return sample


def _pick(random: random.Random, allowed: list[int]) -> int:
    """A byte: any kind of byte as often as the others, so that texts end and plans get long."""
    kinds: dict[str, list[int]] = {}
    for byte in allowed:
        kinds.setdefault(_KINDS.get(byte, "other"), []).append(byte)
    return random.choice(kinds[random.choice(list(kinds))])


def errors(text: str, library: Library) -> list[str]:
    """The codes of a plan's errors; ``empty`` where nothing of it was read."""
    parsed = parse(text)
    found = check(parsed, library)
    codes = [one.code for one in found if one.severity is Severity.ERROR]
    return codes if parsed.plan.steps else [*codes, "empty"]


def takes(lark: str, text: str) -> bool:
    """Whether a grammar in llguidance's dialect admits a text as a whole."""
    matcher = matcher_of(lark)
    data = text.encode()
    return matcher.validate_tokens(list(data)) == len(data) and (
        matcher.consume_tokens(list(data)) and matcher.is_accepting()
    )
