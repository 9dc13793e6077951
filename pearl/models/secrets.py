"""Takes secrets out of texts: keys that an endpoint repeats, and secrets that a tool is sent.

A secret is found both as it is and in every form in which a program may encode it.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from html.entities import codepoint2name

SHORTEST = 4
"""The fewest characters of a secret; a shorter value is left in texts."""

CERTAIN = 8
"""The fewest characters of a secret that is also taken out of longer words. A shorter one may be
an ordinary word ("metric"), and is taken out only where it stands alone."""

MASK = "***"

_TELLING = re.compile(r"(?=.*\d)(?=.*[^\W\d]).")
"""A text with both letters and digits."""

_IN_BASE64 = {"+": r"(?:[+-]|%2[Bb]|\\u002[Bb])", "/": r"(?:\\?/|_|%2[Ff]|\\u002[Ff])"}
"""Characters that differ between the two alphabets of base64, each also escaped."""


def redaction(secrets: Iterable[str]) -> Callable[[str], str]:
    """A function that replaces secrets in a text with ``***``.

    It finds a secret in upper or lower case, with characters escaped as in JSON, URLs or HTML,
    in base64 (also as part of a longer text, such as ``user:key``), and in hexadecimal digits.

    Args:
        secrets: the values.
    """
    return _redaction(frozenset(secrets))


# Each answer of a model is redacted with the same keys.
@lru_cache(maxsize=64)
def _redaction(secrets: frozenset[str]) -> Callable[[str], str]:
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
    plain = "".join(map(_character, secret))
    if len(secret) < CERTAIN:
        # An escaped character before it, such as \n or %20, ends in a letter or a digit.
        escaped = r"(?<=\\[nrt])|(?<=%[0-9a-f]{2})|(?<=\\u[0-9a-f]{4})"
        yield rf"(?i:(?:(?<!\w)|{escaped}){plain}(?!\w))"
        return
    yield f"(?i:{plain})"
    data = secret.encode()
    yield f"(?i:{data.hex()})"
    for before in range(3):
        # A base64 character has six bits, so those at the ends also depend on the neighbours.
        packed = b64encode(bytes(before) + data).decode().rstrip("=")
        digits = packed[(8 * before + 5) // 6 : (8 * (before + len(data))) // 6]
        yield "".join(_IN_BASE64.get(char, char) for char in digits)


def _character(char: str) -> str:
    """All the ways to write a character, in one group."""
    code = ord(char)
    ways = ["".join(f"%{byte:02x}" for byte in char.encode())]
    units = char.encode("utf-16-be").hex()
    ways.append("".join(rf"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)))
    ways += [f"&#0*{code};", f"&#x0*{code:x};"]
    if code in codepoint2name:
        ways.append(f"&{codepoint2name[code]};")
    if char in "\"'/\\":
        ways.append(rf"\\{re.escape(char)}")
    if char == " ":
        ways.append(r"\+")
    # The plain character comes last, because an escaped backslash begins with a backslash.
    return f"(?:{'|'.join([*ways, re.escape(char)])})"
