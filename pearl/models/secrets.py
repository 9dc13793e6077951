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

_PERCENT, _SLASHES = "%(?:25){0,3}", r"\\{1,8}"
"""What stands before an escaped character, in URLs and in JSON, which may be escaped again."""

_IN_BASE64 = {
    "+": rf"(?:[+-]|{_PERCENT}2[Bb]|{_SLASHES}u002[Bb])",
    "/": rf"(?:\\{{0,8}}/|_|{_PERCENT}2[Ff]|{_SLASHES}u002[Ff])",
}
"""What stands in both alphabets of base64, and either escaped."""

_LINE_END = rf"(?:[\r\n]|{_SLASHES}[rn]){{0,2}}"
"""Between any two digits of base64, as it may be in lines."""


def redaction(secrets: Iterable[str]) -> Callable[[str], str]:
    """A function that puts ``***`` in the place of secrets.

    It knows a secret in any case as it is, with any of its characters escaped as in JSON or
    URLs (up to three times over) or HTML, in base64 (also in lines, and within a longer text, as of
    ``user:key``) and in hexadecimal digits, also with a space or a colon between bytes.

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
    # Backslashes in a row are one piece: apart, they would match in countless ways.
    plain = "".join(map(_piece, re.findall(r"\\+|[^\\]", secret)))
    if len(secret) < CERTAIN:
        # What is escaped before it, as a line's end or a space, ends in a letter or a figure.
        escaped = r"(?<=\\[nrt])|(?<=%[0-9a-f]{2})|(?<=\\u[0-9a-f]{4})"
        yield rf"(?i:(?:(?<!\w)|{escaped}){plain}(?!\w))"
        return
    yield f"(?i:{plain})"
    data = secret.encode()
    yield f"(?i:{'[ :-]?'.join(data.hex(' ').split())})"
    for before in range(3):
        # Six bits a character: those which the neighbours share in cannot be known.
        packed = b64encode(bytes(before) + data).decode().rstrip("=")
        digits = packed[(8 * before + 5) // 6 : (8 * (before + len(data))) // 6]
        yield _LINE_END.join(_IN_BASE64.get(char, char) for char in digits)


def _piece(text: str) -> str:
    """All the ways to write a character, or backslashes in a row, in one group."""
    ways = ["".join(f"{_PERCENT}{byte:02x}" for byte in text.encode())]
    units = text.encode("utf-16-be").hex()
    ways.append("".join(f"{_SLASHES}u{units[at : at + 4]}" for at in range(0, len(units), 4)))
    ways.append("".join(f"&#(?:0*{ord(char)}|x0*{ord(char):x});" for char in text))
    if ord(text[0]) in codepoint2name:
        ways.append(f"&{codepoint2name[ord(text[0])]};")
    if text[0] == "\\":
        ways.append(rf"\\{{{len(text)},{8 * len(text)}}}")
    elif text in "\"'/":
        ways.append(rf"{_SLASHES}{re.escape(text)}")
    elif text == " ":
        ways.append(r"\+")
    return f"(?:{'|'.join([*ways, re.escape(text)])})"
