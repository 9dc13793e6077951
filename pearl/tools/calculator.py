"""Arithmetic, exact where it can be.

Python's parser reads an expression, and nothing of Python carries it out: numbers are
fractions, there are no names but those of six functions, and every number has a size that
it may not pass.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal, InvalidOperation, localcontext
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NoReturn

from pearl.tools.toolbox import ToolError

LONGEST_EXPRESSION = 1000
"""Characters."""

BITS = 4096
"""Of a number's numerator and of its denominator: some 1,200 decimal digits."""

EXACT = 30
"""Digits up to which a decimal number is written to the end."""

SHOWN = 15
"""Digits of a number that is rounded."""

_DECIMALS = Context(prec=40)
_AS_ASCII = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-"})


def calculate(expression: str) -> str:
    """What an expression comes to, in decimal digits.

    Args:
        expression: of numbers, ``+ - * / // % **``, parentheses, ``sqrt``, ``abs``, ``round``,
            ``floor``, ``ceil``, ``min`` and ``max``, in Python's order and meaning.

    Returns:
        All digits of a whole number and of a decimal number of up to 30; else it is rounded
        to 15 of them.

    Raises:
        ToolError: it is no such expression, it has no value, or one too large.
    """
    return shown(evaluate(expression))


def evaluate(expression: str) -> Fraction:
    """The value of an expression, as `calculate` takes it.

    Raises:
        ToolError: as of `calculate`.
    """
    text = expression.translate(_AS_ASCII).strip()
    if len(text) > LONGEST_EXPRESSION:
        _fail(f"An expression has at most {LONGEST_EXPRESSION:,} characters.")
    try:
        return _value(ast.parse(text, mode="eval").body, text)
    except (SyntaxError, ValueError):
        _fail("That is no expression: write numbers and operators, as (3 + 4) * 2.")
    except (RecursionError, MemoryError):
        _fail("The expression is nested too deep: ask for a part of it.")
    except ZeroDivisionError:
        _fail("The expression divides by zero.")


def shown(value: Fraction) -> str:
    """A number in decimal digits, as `calculate` gives it."""
    if value.denominator == 1:
        return str(value.numerator)
    with localcontext(Context(prec=EXACT)) as context:
        told = Decimal(value.numerator) / Decimal(value.denominator)
        exact = Fraction(told) == value
        context.prec = SHOWN
        told = told if exact else +told
    # 1E-7 is how Decimal writes small numbers, and normal for so many digits.
    plain = -10 < told.adjusted() < SHOWN + 5
    text = f"{told:f}" if plain else str(told)
    return text.rstrip("0").rstrip(".") if "." in text and "E" not in text else text


def _value(node: ast.expr, text: str) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return _number(node, text)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, text)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, text)
        case ast.BinOp(left=left, op=op, right=right):
            if isinstance(op, ast.BitXor):
                _fail("^ is no operator: write a power with **.")
            if type(op) not in _OPERATORS:
                _fail("The operators are + - * / // % and **.")
            return _small(_OPERATORS[type(op)](_value(left, text), _value(right, text)))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _small(_FUNCTIONS[name]([_value(one, text) for one in args]))
        case ast.Call() | ast.Name():
            _fail(f"There are no names but the functions {', '.join(_FUNCTIONS)}.")
        case ast.Tuple():
            _fail("Write numbers without commas, as 1000000.")
        case _:
            _fail("That is no expression: write numbers and operators, as (3 + 4) * 2.")


def _number(node: ast.Constant, text: str) -> Fraction:
    """A number as it is written: 0.1 is a tenth, which no float is."""
    if isinstance(node.value, int):
        return _small(Fraction(node.value))
    written = (ast.get_source_segment(text, node) or "").replace("_", "")
    exponent = written.lower().partition("e")[2]
    if len(exponent.lstrip("+-")) > 4:
        _fail("A number in the expression is too large or too small.")
    return _small(Fraction(written))


def _small(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > BITS:
        _fail("A number in the expression is too large or too small.")
    return value


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator == 1:
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if (bits - 1) * abs(exponent.numerator) > BITS:
            _fail("A number in the expression is too large or too small.")
        return Fraction(base**exponent.numerator)
    if base < 0:
        _fail("A root of a number below zero has no value.")
    if exponent == Fraction(1, 2):
        return _root(base)
    try:
        with localcontext(_DECIMALS):
            return Fraction(_decimal(base) ** _decimal(exponent))
    except (InvalidOperation, ArithmeticError, ValueError):
        _fail("A power in the expression has no value, or one too large.")


def _root(value: Fraction) -> Fraction:
    if value < 0:
        _fail("A root of a number below zero has no value.")
    up, down = math.isqrt(value.numerator), math.isqrt(value.denominator)
    if up * up == value.numerator and down * down == value.denominator:
        return Fraction(up, down)
    with localcontext(_DECIMALS):
        return Fraction(_decimal(value).sqrt())


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _rounded(value: Fraction, digits: Fraction = Fraction(0)) -> Fraction:
    if digits.denominator != 1 or abs(digits) > BITS // 4:
        _fail("round takes a number and how many digits to keep.")
    return Fraction(round(value, int(digits)))


def _one(
    name: str, act: Callable[[Fraction], Fraction]
) -> Callable[[Sequence[Fraction]], Fraction]:
    def carry(given: Sequence[Fraction]) -> Fraction:
        if len(given) != 1:
            _fail(f"{name} takes one number.")
        return act(given[0])

    return carry


def _some(
    name: str, act: Callable[[Sequence[Fraction]], Fraction], most: int = LONGEST_EXPRESSION
) -> Callable[[Sequence[Fraction]], Fraction]:
    def carry(given: Sequence[Fraction]) -> Fraction:
        if not 1 <= len(given) <= most:
            _fail(f"{name} takes {'one number or two' if most == 2 else 'one number or more'}.")
        return act(given)

    return carry


def _fail(message: str) -> NoReturn:
    raise ToolError("input", message)


_OPERATORS: Mapping[type[ast.operator], Callable[[Fraction, Fraction], Any]] = MappingProxyType(
    {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.Div: operator.truediv,
        ast.FloorDiv: lambda one, other: Fraction(one // other),
        ast.Mod: operator.mod,
        ast.Pow: _power,
    }
)
_FUNCTIONS: Mapping[str, Callable[[Sequence[Fraction]], Fraction]] = MappingProxyType(
    {
        "sqrt": _one("sqrt", _root),
        "abs": _one("abs", abs),
        "floor": _one("floor", lambda value: Fraction(math.floor(value))),
        "ceil": _one("ceil", lambda value: Fraction(math.ceil(value))),
        "round": _some("round", lambda given: _rounded(*given), 2),
        "min": _some("min", min),
        "max": _some("max", max),
    }
)
