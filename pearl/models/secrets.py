"""Takes secrets out of texts: keys that an endpoint repeats, and secrets that a tool is sent.

A secret is found both as it is and in every form in which a program may encode it.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from html.entities import codepoint2name
from typing import TypeAlias

Redact: TypeAlias = Callable[[str], str]
"""Takes secrets out of a text."""

SHORTEST = 4
"""The fewest characters of a secret; a shorter value is left in texts."""

CERTAIN = 8
"""The fewest characters of a secret that is also taken out of longer words. A shorter one may be
an ordinary word ("metric"), and is taken out only where it stands alone."""

MASK = "***"

_TELLING = re.compile(r"(?=.*\d)(?=.*[^\W\d]).")
"""A text with both letters and digits."""

_PERCENT, _SLASHES = "%(?:25){0,3}", r"\\{1,8}"
"""The prefix of an escaped character, in URLs and in JSON, which may be escaped again."""

_IN_BASE64 = {
    "+": rf"(?:[+-]|{_PERCENT}2[Bb]|{_SLASHES}u002[Bb])",
    "/": rf"(?:\\{{0,8}}/|_|{_PERCENT}2[Ff]|{_SLASHES}u002[Ff])",
}
"""Characters that differ between the two alphabets of base64, each also escaped."""

_LINE_END = rf"(?:[\r\n]|{_SLASHES}[rn]){{0,2}}"
"""What may stand between two digits of base64, as its text may have line breaks."""


def redaction(secrets: Iterable[str]) -> Redact:
    """A function that replaces secrets in a text with ``***``.

    It finds a secret in upper or lower case, with characters escaped as in HTML, JSON or URLs (up
    to three times), in base64 (also in lines, or as part of a longer text, such as ``user:key``),
    and in hexadecimal digits, with or without a separator between bytes.
    """
    return _redaction(frozenset(secrets))


# Each answer of a model is redacted with the same keys.
@lru_cache(maxsize=64)
def _redaction(secrets: frozenset[str]) -> Redact:
    # The longest first: one may begin with another.
    maskable = {secret for secret in secrets if len(secret) >= SHORTEST}
    forms = [form for secret in sorted(maskable, key=len, reverse=True) for form in _forms(secret)]
    if not forms:
        return lambda text: text
    pattern = re.compile("|".join(forms))
    return lambda text: pattern.sub(MASK, text)


def is_key(text: str) -> bool:
    """Whether a credential is a real key. A short word ("none", "ollama") only stands in for one,
    and occurs in many texts."""
    return len(text) >= CERTAIN or _TELLING.match(text) is not None


def _forms(secret: str) -> Iterator[str]:
    plain = "".join(map(_piece, re.findall(r"\\*[^\\]|\\+", secret)))
    if len(secret) < CERTAIN:
        # An escaped character before it, such as \n or %20, ends in a letter or a digit.
        escaped = r"(?<=\\[nrt])|(?<=%[0-9a-f]{2})|(?<=\\u[0-9a-f]{4})"
        yield rf"(?i:(?:(?<!\w)|{escaped}){plain}(?!\w))"
        return
    yield f"(?i:{plain})"
    data = secret.encode()
    yield f"(?i:{'[ :-]?'.join(data.hex(' ').split())})"
    for before in range(3):
        # A base64 character has six bits, so those at the ends also depend on the neighbours.
        packed = b64encode(bytes(before) + data).decode().rstrip("=")
        digits = packed[(8 * before + 5) // 6 : (8 * (before + len(data))) // 6]
        yield _LINE_END.join(_IN_BASE64.get(char, char) for char in digits)


def _piece(text: str) -> str:
    """A group of all the ways to write a character with the backslashes before it, or backslashes
    at the end of a secret."""
    char = text.lstrip("\\")
    count = len(text) - len(char)
    escaped = "|".join((*_encoded("\\" * count), _in_json("\\" * count)))
    if not char:
        return rf"(?:{escaped}|\\{{{count},{8 * count}}})"
    plain, in_json = re.escape(char), _in_json(char)
    if char in "\"'/":
        in_json += rf"|{_SLASHES}{plain}"
    # The plain text comes last, because an escaped backslash begins with a backslash.
    alone = f"(?:{'|'.join((*_encoded(char), in_json, plain))})"
    if not count:
        return alone
    # Backslashes of the secret, and those that escape the character, have one count: with two, a
    # row of them could be divided in many ways, and several rows in exponentially many.
    row = rf"(?>\\{{{count},{8 * count + 8}}})"
    behind = "|".join((*_encoded(char), _in_json(char).removeprefix(_SLASHES), plain))
    return f"(?:(?:{escaped}){alone}|{row}(?:{behind}))"


def _encoded(text: str) -> Iterator[str]:
    """The ways to write a character, or backslashes, in URLs and in HTML."""
    yield "".join(f"{_PERCENT}{byte:02x}" for byte in text.encode())
    yield "".join(f"&#(?:0*{ord(char)}|x0*{ord(char):x});" for char in text)
    if len(text) == 1 and ord(text) in codepoint2name:
        yield f"&{codepoint2name[ord(text)]};"
    if text == " ":
        yield r"\+"


def _in_json(text: str) -> str:
    """A character, or backslashes, as JSON escapes them by number."""
    units = text.encode("utf-16-be").hex()
    return "".join(f"{_SLASHES}u{units[at : at + 4]}" for at in range(0, len(units), 4))
