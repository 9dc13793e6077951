"""Carrying out actions whose body is a function of a person's own (`pearl.lang.functions`)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from pearl.lang.ast import DOCUMENT, Action, Function, Param
from pearl.lang.builtins import Given
from pearl.lang.extensions import failure_text
from pearl.lang.functions import as_python, as_value
from pearl.lang.source import Source
from pearl.lang.values import DecodeError, Value, as_text, digest, from_json, to_json, type_of
from pearl.models.middleware.cache import Keep
from pearl.runtime.binding import Output, StepError


async def carry_out(
    action: Action, args: Sequence[Given], document: Source | None, cache: Keep | None
) -> Output:
    """Call an action's function.

    Args:
        action: with a `Function` for its body.
        args: the arguments in order, without the document.
        document: what stands for it; None where the call names none.
        cache: has what an action with the trait ``cacheable`` or ``pure`` gave before; others are
            called each time.

    Raises:
        StepError: an argument or the result has the wrong type, or the function failed.
    """
    assert isinstance(action.body, Function)
    arguments, function = _arguments(action, [arg.value for arg in args], document), action.body

    async def run() -> Any:  # noqa: ANN401 - JSON
        try:
            result = await call(function.call, *arguments)
        except Exception as error:
            raise StepError("solver", f"{action.name} failed: {failure_text(error)}") from error
        try:
            value = as_value(result)
        except DecodeError as error:
            raise StepError("value", f"{action.name}: {error}") from None
        if action.returns not in ("any", kind := type_of(value)):
            message = f"{action.name} is to give {action.returns}, and gave {kind}."
            raise StepError("value", message)
        return to_json(value)

    if cache and not action.traits.isdisjoint(("cacheable", "pure")):
        inputs = [to_json(arg.value) for arg in args], document and document.digest
        key = digest(["function", function.name, function.digest, *inputs])
        value = from_json(await cache(key, f"function {action.name}", run))
    else:
        value = from_json(await run())
    if not document or "verbatim" not in action.traits:
        return Output(value, ())
    return Output(value, [line for line in as_text(value).splitlines() if document.find(line)])


async def call(function: Callable[..., object], *arguments: object) -> Any:  # noqa: ANN401
    """What a person's own function gives; one that blocks has a thread of its own."""
    if inspect.iscoroutinefunction(function):
        return await function(*arguments)

    def called() -> object:
        try:
            return function(*arguments)
        except StopIteration:
            # No future takes it: whoever waits for the thread would wait for ever.
            raise RuntimeError("it raised StopIteration") from None

    return await asyncio.to_thread(called)


def _arguments(action: Action, values: list[Value], document: Source | None) -> list[object]:
    """The Python arguments of a call, the document's text among them."""
    arguments: list[object] = []
    for at, param in enumerate(action.params):
        if param.name == DOCUMENT:
            if document is None:
                raise StepError("value", f"{action.name} reads the document: give it {DOCUMENT}.")
            arguments.append(document.text)
            continue
        rest = action.variadic and at == len(action.params) - 1
        for _ in range(len(values) if rest else 1):
            if not values:
                raise StepError("value", f"{action.name} is given nothing for {param.name}.")
            arguments.append(_as_python(param, values.pop(0)))
    return arguments


def _as_python(param: Param, value: Value) -> object:
    if param.type == "text":
        return as_text(value)
    if param.type not in ("any", kind := type_of(value)):
        raise StepError("value", f"{param.name} is to be {param.type}, and is {kind}.")
    try:
        return as_python(value)
    except DecodeError as error:
        raise StepError("value", f"{param.name}: {error}") from None
