"""Takes secrets out of texts: keys that an endpoint repeats, and what a tool is sent.

A secret is found as it is, in every form in which a program may write it.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from html.entities import codepoint2name

SHORTEST = 4
"""Characters; a shorter value is no secret."""

CERTAIN = 8
"""Characters from which on a value is taken out of longer words too; a shorter one ("metric")
is an ordinary word of many texts, and is taken out where it stands alone."""

MASK = "***"

_TELLING = re.compile(r"(?=.*\d)(?=.*[^\W\d]).")
"""Letters and figures both."""

_IN_BASE64 = {"+": r"(?:[+-]|%2[Bb]|\\u002[Bb])", "/": r"(?:\\?/|_|%2[Ff]|\\u002[Ff])"}
"""What stands in both alphabets of base64, and either escaped."""


def redaction(secrets: Iterable[str]) -> Callable[[str], str]:
    """A function that puts ``***`` in the place of secrets.

    It knows a secret in any case as it is, with any of its characters escaped as in JSON,
    URLs or HTML, in base64 (also within a longer text, as of ``user:key``) and in hexadecimal
    digits.

    Args:
        secrets: the values.
    """
    return _redaction(frozenset(secrets))


# A model's keys are asked for at each of its answers.
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
    """Whether what signs in is a key: a short word ("none", "ollama") is a stand-in for one, and
    an ordinary word of many texts."""
    return len(text) >= CERTAIN or _TELLING.match(text) is not None


def _forms(secret: str) -> Iterator[str]:
    plain = "".join(map(_character, secret))
    if len(secret) < CERTAIN:
        # What is escaped before it, as a line's end or a space, ends in a letter or a figure.
        escaped = r"(?<=\\[nrt])|(?<=%[0-9a-f]{2})|(?<=\\u[0-9a-f]{4})"
        yield rf"(?i:(?:(?<!\w)|{escaped}){plain}(?!\w))"
        return
    yield f"(?i:{plain})"
    data = secret.encode()
    yield f"(?i:{data.hex()})"
    for before in range(3):
        # Six bits a character: those which the neighbours share in cannot be known.
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
    # As it is comes last: an escaped backslash begins with one.
    return f"(?:{'|'.join([*ways, re.escape(char)])})"
