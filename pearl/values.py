"""What steps exchange: text, numbers, truth values, lists, and pairs.

Values are JSON but for `Pairs`, the key–answer lists that ``each`` makes
(CommaQA, section 3: select, project and filter work on them).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Type: TypeAlias = Literal["any", "text", "number", "bool", "list", "pairs"]
TYPES: tuple[Type, ...] = ("any", "text", "number", "bool", "list", "pairs")


@dataclass(frozen=True, slots=True)
class Pairs:
    """An ordered list of (key, value) pairs."""

    items: tuple[tuple[Value, Value], ...]

    def __iter__(self) -> Iterator[tuple[Value, Value]]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


Value: TypeAlias = "str | int | float | bool | list[Value] | Pairs"


class DecodeError(ValueError):
    """A model's reply that does not hold a value of the type the action returns."""


def type_of(value: Value) -> Type:
    """The type's name of a value."""
    match value:
        case bool():
            return "bool"
        case str():
            return "text"
        case int() | float():
            return "number"
        case Pairs():
            return "pairs"
        case _:
            return "list"


def to_json(value: Value) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """The JSON form; pairs become ``{"pairs": [[key, value], …]}``."""
    if isinstance(value, Pairs):
        return {"pairs": [[to_json(key), to_json(item)] for key, item in value]}
    if isinstance(value, list):
        return [to_json(item) for item in value]
    return value


def from_json(data: Any) -> Value:  # noqa: ANN401 - JSON has no narrower type
    """The inverse of `to_json`.

    Raises:
        DecodeError: the data is null or an object that is not pairs.
    """
    if isinstance(data, dict) and set(data) == {"pairs"} and isinstance(data["pairs"], list):
        pairs = data["pairs"]
        if all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            return Pairs(tuple((from_json(key), from_json(item)) for key, item in pairs))
    if isinstance(data, list):
        return [from_json(item) for item in data]
    if isinstance(data, str | bool | int | float):
        return data
    raise DecodeError(f"not a value: {json.dumps(data, default=str)[:80]}")


def canonical_json(data: Any) -> str:  # noqa: ANN401 - JSON has no narrower type
    """One text for one value: sorted keys, no spaces, characters as they are."""
    return json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def digest(data: Any) -> str:  # noqa: ANN401 - JSON has no narrower type
    """The SHA-256 of JSON data, in hexadecimal digits."""
    return hashlib.sha256(canonical_json(data).encode("utf-8", "surrogatepass")).hexdigest()


def one_line_json(data: Any) -> str:  # noqa: ANN401 - JSON has no narrower type
    """Canonical JSON without any character that ends a line, not even U+2028."""
    return _LINE_END.sub(lambda end: f"\\u{ord(end[0]):04x}", canonical_json(data))


def as_text(value: Value) -> str:
    """The value as a reader sees it: text as it is, a list one item a line."""
    match value:
        case bool():
            return "yes" if value else "no"
        case str():
            return value
        case Pairs():
            return "\n".join(_pair(as_text(key), as_text(item)) for key, item in value)
        case list():
            return "\n".join(as_text(item) for item in value)
        case _:
            return json.dumps(value)


def _pair(key: str, item: str) -> str:
    # Lines that quote must stay lines of their own.
    return f"{key}:\n{item}" if "\n" in item or item.startswith(">") else f"{key}: {item}"


_LINE_END = re.compile("[\x85\u2028\u2029]")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?")
_TRUTH = re.compile(r"\W*(yes|no|true|false)\b", re.IGNORECASE)


def decode(reply: str, returns: Type) -> Value:
    """Read a model's reply as a value of an action's return type.

    Text is kept to the letter. Quoted evidence (lines that start with ``>``)
    is no part of a list, a number or a truth value.

    Args:
        reply: what the model wrote.
        returns: the type the action declares.

    Raises:
        DecodeError: the reply holds no such value.
    """
    if returns in ("text", "any"):
        return reply
    told = "\n".join(line for line in reply.splitlines() if not line.startswith(">")).strip()
    if returns == "bool":
        found = _TRUTH.match(told)
        if not found:
            raise DecodeError(f"expected yes or no, got {_short(told)}")
        return found[1].lower() in ("yes", "true")
    if returns == "number":
        numbers = _NUMBER.findall(told)
        if len(numbers) != 1:
            raise DecodeError(f"expected one number, got {_short(told)}")
        digits = numbers[0].replace(",", "")
        return int(digits) if digits.lstrip("-").isdigit() else float(digits)
    value = _json_value(told)
    if returns == "pairs":
        if isinstance(value, Pairs):
            return value
        raise DecodeError(f'expected {{"pairs": …}}, got {_short(told)}')
    if isinstance(value, list):
        return value
    return [_BULLET.sub("", line).strip() for line in told.splitlines() if line.strip()]


def _json_value(text: str) -> Value | None:
    body = re.sub(r"^```\w*\n|\n?```$", "", text).strip()
    try:
        return from_json(json.loads(body))
    except (ValueError, RecursionError):
        return None


def _short(text: str) -> str:
    shown = " ".join(text.split())
    return repr(shown if len(shown) <= 60 else shown[:57] + "...")
