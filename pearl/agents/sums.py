"""The agent that counts and compares (CommaQA-N: ``math_special``).

It reads numbers as text, which is how answers stand in a question. A number
with a decimal point stays one, and differences are exact in decimal digits:
92.4 and 85.8 differ by 6.6.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType

from pearl.values import Value

_NUMBER = re.compile(r"-?[0-9]{1,12}(?:\.[0-9]{1,12})?")


def read_number(text: str) -> Decimal | None:
    """A number as text, with up to 12 digits on each side of its point; None for anything else."""
    return Decimal(text) if _NUMBER.fullmatch(text) else None


def read_numbers(text: str) -> tuple[Decimal, ...] | None:
    """A list of numbers, one a line or as JSON; None for anything else.

    A list in a plan's template stands one item a line, so that nothing at all
    is the empty list.
    """
    if not text:
        return ()
    items = _json_list(text) if text.startswith("[") else text.split("\n")
    numbers = [read_number(item) for item in items]
    found = tuple(number for number in numbers if number is not None)
    return found if len(found) == len(numbers) else None


def _json_list(text: str) -> list[str]:
    try:
        # Digits are kept as written, as 66.0 is not 66.
        data = json.loads(text, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        return [""]
    known = isinstance(data, list) and all(isinstance(item, str) for item in data)
    return data if known else [""]


def _value(number: Decimal) -> Value:
    return int(number) if number.as_tuple().exponent == 0 else float(number)


def _most(numbers: Sequence[Decimal]) -> Value | None:
    return _value(max(numbers)) if numbers else None


def _least(numbers: Sequence[Decimal]) -> Value | None:
    return _value(min(numbers)) if numbers else None


OF_LIST: Mapping[str, Callable[[Sequence[Decimal]], Value | None]] = MappingProxyType(
    {"count": len, "max": _most, "min": _least}
)
"""What the agent tells of one list of numbers; None for "no answer"."""

OF_TWO: Mapping[str, Callable[[Decimal, Decimal], Value]] = MappingProxyType(
    {
        "diff": lambda one, other: _value(abs(one - other)),
        "is_greater": lambda one, other: one > other,
        "is_smaller": lambda one, other: one < other,
    }
)
"""What the agent tells of two numbers."""


def reckoned(name: str, arguments: Sequence[str]) -> Value | None:
    """The answer of one operation; None for arguments that are no numbers.

    Args:
        name: out of `OF_LIST` or `OF_TWO`.
        arguments: as they stand in the question: one list, or two numbers.
    """
    if name in OF_LIST:
        numbers = read_numbers(arguments[0])
        return None if numbers is None else OF_LIST[name](numbers)
    one, other = (read_number(argument) for argument in arguments)
    return None if one is None or other is None else OF_TWO[name](one, other)
