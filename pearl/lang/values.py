"""What steps exchange: text, numbers, truth values, lists, and pairs.

Values are JSON but for `Pairs`, the key–answer lists that ``each`` makes
(CommaQA, section 3: select, project and filter work on them).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, TypeAlias

from pearl.lang.text import one_line, pattern, text_digest

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


DEEPEST = 50
"""How deep lists may stand in lists."""


class PartName(str):
    """The name of a part of the document, as ``CTX 1/3``, or of one of several, as ``CTX.a.pdf``.

    Only the plan makes one, through ``PARTS`` and ``DOCUMENTS`` or by writing it: the same words
    in a document or an output are a text like any other.
    """

    __slots__ = ()


class DocumentLabel(PartName):
    """The label of one of several documents; readers see its name, without ``CTX.`` before it."""

    __slots__ = ()


UNKNOWN = "unknown"
"""The output in place of a number, where the sources do not say it."""


class DecodeError(ValueError):
    """A model's reply that does not hold a value of the type the action returns."""


class OversizeError(DecodeError):
    """Data with more items and characters than a value may have."""


def type_of(value: Value) -> Type:
    """The name of a value's type."""
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


def size_of(values: Iterable[Value], most: int) -> int | None:
    """The size of some values together: the characters of their texts, plus one for every value.

    Args:
        values: any.
        most: the size at which counting stops, as one list may be held many times by another.

    Returns:
        None where that is more than ``most``, or a list stands deeper than `DEEPEST`.
    """
    size = 0
    pending: list[tuple[Value, int]] = [(value, 0) for value in values]
    while pending:
        value, depth = pending.pop()
        size += 1 + (len(value) if isinstance(value, str) else 0)
        if size > most or depth > DEEPEST:
            return None
        if isinstance(value, list):
            pending += ((item, depth + 1) for item in value)
        elif isinstance(value, Pairs):
            pending += ((part, depth + 1) for pair in value for part in pair)
    return size


def to_json(value: Value) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """The JSON form; pairs become ``{"pairs": [[key, value], …]}``."""
    if isinstance(value, Pairs):
        return {"pairs": [[to_json(key), to_json(item)] for key, item in value]}
    if isinstance(value, list):
        return [to_json(item) for item in value]
    return value


def from_json(data: Any, depth: int = DEEPEST) -> Value:  # noqa: ANN401 - JSON has no narrower type
    """The inverse of `to_json`.

    Args:
        data: JSON data.
        depth: how deep lists and pairs may be nested.

    Raises:
        DecodeError: the data is null, an object that is not pairs, nested too deep, or holds a
            number beyond the doubles that other readers of JSON use (RFC 8259, section 6).
    """
    if depth < 0:
        raise DecodeError(f"no value is more than {DEEPEST} lists deep")
    if isinstance(data, dict) and set(data) == {"pairs"} and isinstance(data["pairs"], list):
        pairs = data["pairs"]
        if all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            inner = depth - 1
            return Pairs(tuple((from_json(key, inner), from_json(of, inner)) for key, of in pairs))
    if isinstance(data, list):
        return [from_json(item, depth - 1) for item in data]
    if isinstance(data, int | float) and not abs(data) <= sys.float_info.max:
        raise DecodeError("no value is a number beyond 1.8e308")
    if isinstance(data, str | bool | int | float):
        return data
    raise DecodeError(f"no value is {'null' if data is None else 'an object that is not pairs'}")


def read_number(digits: str) -> int | float | None:
    """The number that a text holds, as JSON writes numbers; None if it is beyond a double."""
    number = float(digits)
    if not abs(number) <= sys.float_info.max:
        return None
    return int(digits) if digits.lstrip("-").isdigit() else number


_CANONICAL = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def canonical_json(data: Any) -> str:  # noqa: ANN401 - JSON has no narrower type
    """JSON with sorted keys and no spaces, so that equal data give equal texts."""
    return _CANONICAL.encode(data)


def digest(data: Any) -> str:  # noqa: ANN401 - JSON has no narrower type
    """The SHA-256 of JSON data, in hexadecimal digits."""
    return text_digest(canonical_json(data))


def one_line_json(data: Any) -> str:  # noqa: ANN401 - JSON has no narrower type
    """Canonical JSON without any character that ends a line, not even U+2028."""
    return _LINE_END.sub(lambda end: f"\\u{ord(end[0]):04x}", canonical_json(data))


def as_text(value: Value) -> str:
    """The value as a reader sees it: text as it is, a list one item a line."""
    match value:
        case bool():
            return "yes" if value else "no"
        case DocumentLabel():
            return value.partition(".")[2]
        case str():
            return value
        case Pairs():
            return "\n".join(_pair(as_text(key), as_text(item)) for key, item in value)
        case list():
            return "\n".join(as_text(item) for item in value)
        # The same text as JSON's, but faster: learning converts hundreds of thousands of numbers.
        case int():
            return str(value)
        case float() if isfinite(value):
            return repr(value)
        case _:
            return json.dumps(value)


def _pair(key: str, item: str) -> str:
    # Lines that quote the document, with ``>``, must stay lines of their own.
    return f"{key}:\n{item}" if "\n" in item or item.startswith(">") else f"{key}: {item}"


_LINE_END = pattern("[\x85\u2028\u2029]")
_BULLET = pattern(r"^\s*(?:[-*•]|\d+[.)])\s+")
_NUMBER = pattern(
    r"(?:[A-Z]{2,3}\s|[^\w-])*(-?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?)"
    r"(?:\W*[^\W\d]++){0,4}\W*"
)
"""A number alone on a line, perhaps with a currency before it and its unit after it."""

_QUOTE = pattern(r"[ \t]*>[ \t]?(.*)")
_UNKNOWN = pattern(rf"\W*{UNKNOWN}\W*(?:\n|[.:;,(–—-]|$)", re.IGNORECASE)
_TRUTH = pattern(
    r"\W*(?:(yes|true)\b.*|(?:no|false)(?![-'’]\w)(?:\W*[^\w\s].*|\s*))", re.IGNORECASE
)
"""A truth value at the beginning of a line; after *no* a word could make it *no cap*."""


def split_evidence(reply: str) -> tuple[str, list[str]]:
    """A reply's answer, and the lines of the document that it quotes, which begin with ``>``.

    A reply that quotes nothing is the answer, unchanged; of one that only quotes, the answer is
    its quotations.
    """
    lines = [(line, _QUOTE.fullmatch(line)) for line in reply.splitlines()]
    quoted = [line_text for _, quote in lines if quote and (line_text := quote[1].rstrip(" \t"))]
    if not quoted:
        return reply, []
    answer = "\n".join(line for line, quote in lines if not quote).strip()
    return answer or "\n".join(quoted), quoted


def decode(reply: str, returns: Type) -> Value:
    """Read the answer of a model's reply, without its quotations, as a value of a type.

    Args:
        reply: what the model wrote; as a text, a reply without quotations is kept unchanged.
        returns: the type the action declares.

    Returns:
        The value; in place of a number that the sources do not say, the text `UNKNOWN`.

    Raises:
        DecodeError: the reply holds no such value.
    """
    answer, quoted = split_evidence(reply)
    if returns in ("text", "any"):
        return answer
    # A list, a number or a truth value is not read out of the document's own words.
    text = "" if quoted and answer == "\n".join(quoted) else answer.strip()
    first = text.partition("\n")[0]
    if returns == "bool":
        match = _TRUTH.fullmatch(first)
        if not match:
            raise DecodeError(f"expected yes or no, got {_short(text)}")
        return match[1] is not None
    if returns == "number":
        if _UNKNOWN.match(text):
            return UNKNOWN
        match = _NUMBER.fullmatch(first)
        if not match:
            raise DecodeError(f"expected one number alone on the first line, got {_short(text)}")
        number = read_number(match[1].replace(",", ""))
        if number is None:
            raise DecodeError(f"expected a number up to 1.8e308, got {_short(match[1])}")
        return number
    value = _json_value(text)
    if returns == "pairs":
        if isinstance(value, Pairs):
            return value
        raise DecodeError(f'expected {{"pairs": …}}, got {_short(text)}')
    if isinstance(value, list):
        return value
    return [_BULLET.sub("", line).strip() for line in text.splitlines() if line.strip()]


def _json_value(text: str) -> Value | None:
    """The value of a reply in JSON; None where it is no JSON, or no value, and a `DecodeError`
    where it is a list, but one that no plan can hold."""
    body = re.sub(r"^```\w*\n|\n?```$", "", text).strip()
    try:
        return from_json(json.loads(body))
    except json.JSONDecodeError:
        return None
    except (ValueError, RecursionError) as error:
        if not body.startswith("["):
            return None
        # Python itself reads no number of so many digits, and no list of such a depth.
        reason = error if isinstance(error, DecodeError) else "it is too large or too deep"
        raise DecodeError(f"expected a list, got {_short(body)}: {reason}") from None


def _short(text: str) -> str:
    shown = one_line(text)
    if not shown:
        return "no answer above its quotations"
    return repr(shown if len(shown) <= 60 else shown[:57] + "...")
