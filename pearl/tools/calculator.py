"""A calculator, exact where possible.

Python's parser reads an expression, but Python does not evaluate it: numbers are fractions,
the only names are those of seven functions, and the size of every number is limited.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NoReturn

from pearl.tools.toolbox import ToolError

LONGEST_EXPRESSION = 1000
"""The most characters of an expression."""

BITS = 4096
"""The most bits of a number's numerator and denominator: some 1,200 decimal digits."""

EXACT = 30
"""The most digits of a decimal number that is not rounded."""

SHOWN = 15
"""The digits of a number that is rounded."""

_HALF, _NO_DIGITS = Fraction(1, 2), Fraction(0)
_NO_EXPRESSION = "That is no expression: write numbers and operators, as (3 + 4) * 2."
_TOO_LARGE = "A number in the expression is too large or too small."
_DECIMALS = Context(prec=40)
_AS_ASCII = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-"})


def calculate(expression: str) -> str:
    """The value of an expression, in decimal digits.

    Args:
        expression: numbers, ``+ - * / // % **``, parentheses, ``sqrt``, ``abs``, ``round``,
            ``floor``, ``ceil``, ``min`` and ``max``, with Python's precedence and meaning.

    Returns:
        All digits of a whole number, or of a decimal number with up to 30; else the number
        rounded to 15 digits.

    Raises:
        ToolError: it is no such expression, it has no value, or one that is too large.
    """
    text = expression.translate(_AS_ASCII).strip()
    if len(text) > LONGEST_EXPRESSION:
        _fail(f"An expression has at most {LONGEST_EXPRESSION:,} characters.")
    try:
        return _decimal_text(_value(ast.parse(text, mode="eval").body, text))
    except (SyntaxError, ValueError):
        _fail(_NO_EXPRESSION)
    except (RecursionError, MemoryError):
        _fail("The expression is nested too deep: ask for a part of it.")
    except ZeroDivisionError:
        _fail("The expression divides by zero.")


def _decimal_text(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    with localcontext(Context(prec=EXACT)) as context:
        number = _decimal(value)
        context.prec = SHOWN
        if Fraction(number) != value:
            number = +number
    # Very small and very large numbers are written with an exponent, as 1E-11.
    plain = -10 < number.adjusted() < SHOWN + 5
    text = f"{number:f}" if plain else str(number)
    return text.rstrip("0").rstrip(".") if "." in text and "E" not in text else text


def _value(node: ast.expr, text: str) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            if isinstance(value, int):
                return _small(Fraction(value))
            # From the source text, as the float 0.1 is not exactly a tenth.
            written = (ast.get_source_segment(text, node) or "").replace("_", "")
            if len(written.lower().partition("e")[2].lstrip("+-")) > 4:
                _fail(_TOO_LARGE)
            return _small(Fraction(written))
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as op, operand=operand):
            sign = -1 if isinstance(op, ast.USub) else 1
            return sign * _value(operand, text)
        case ast.BinOp(op=ast.BitXor()):
            _fail("^ is no operator: write a power with **.")
        case ast.BinOp(left=left, op=op, right=right):
            if type(op) not in _OPERATORS:
                _fail("The operators are + - * / // % and **.")
            return _small(_OPERATORS[type(op)](_value(left, text), _value(right, text)))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            numbers = [_value(arg, text) for arg in args]
            function, most, inputs = _FUNCTIONS[name]
            if not 1 <= len(numbers) <= most:
                _fail(f"{name} takes {inputs}.")
            return _small(Fraction(function(*numbers)))
        case ast.Call() | ast.Name():
            _fail(f"There are no names but the functions {', '.join(_FUNCTIONS)}.")
        case ast.Tuple():
            _fail("Write numbers without commas, as 1000000.")
        case _:
            _fail(_NO_EXPRESSION)


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _small(value: Fraction) -> Fraction:
    return value if _bits(value) <= BITS else _fail(_TOO_LARGE)


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator == 1:
        if (_bits(base) - 1) * abs(exponent.numerator) > BITS:
            _fail(_TOO_LARGE)
        return Fraction(base**exponent.numerator)
    if base < 0:
        _fail("A root of a number below zero has no value.")
    up, down = math.isqrt(base.numerator), math.isqrt(base.denominator)
    if exponent == _HALF and Fraction(up * up, down * down) == base:
        return Fraction(up, down)
    try:
        with localcontext(_DECIMALS):
            number = _decimal(base)
            return Fraction(number.sqrt() if exponent == _HALF else number ** _decimal(exponent))
    except (ArithmeticError, ValueError):
        _fail("A power in the expression has no value, or one too large.")


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _rounded(value: Fraction, digits: Fraction = _NO_DIGITS) -> Fraction:
    if digits.denominator != 1 or abs(digits) > BITS // 4:
        _fail("round takes a number and how many digits to keep.")
    return Fraction(round(value, int(digits)))


def _fail(message: str) -> NoReturn:
    raise ToolError("input", message)


_OPERATORS: Mapping[type[ast.operator], Callable[[Fraction, Fraction], Any]] = MappingProxyType(
    {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.Div: operator.truediv,
        ast.FloorDiv: lambda left, right: Fraction(left // right),
        ast.Mod: operator.mod,
        ast.Pow: _power,
    }
)
_ONE, _SOME = (1, "one number"), (LONGEST_EXPRESSION, "one number or more")
_FUNCTIONS: Mapping[str, tuple[Callable[..., Any], int, str]] = MappingProxyType(
    {
        "sqrt": (lambda value: _power(value, _HALF), *_ONE),
        "abs": (abs, *_ONE),
        "floor": (math.floor, *_ONE),
        "ceil": (math.ceil, *_ONE),
        "round": (_rounded, 2, "one number or two"),
        "min": (lambda *values: min(values), *_SOME),
        "max": (lambda *values: max(values), *_SOME),
    }
)
"""Each function, the most numbers that it takes, and that in words."""
