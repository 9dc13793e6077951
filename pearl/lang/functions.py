"""Actions that a function in Python carries out: `action` checks the function and wraps it.

Functions take and return Python's own types: pairs are a dictionary, all else is as in JSON.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints, overload

from pearl.lang.ast import DOCUMENT, Action, Function, Param
from pearl.lang.entry_points import source_digest
from pearl.lang.errors import InputError
from pearl.lang.library import TRAITS, builtins
from pearl.lang.text import one_line
from pearl.lang.values import DEEPEST, DecodeError, OversizeError, Pairs, Type, Value, from_json

_TYPES: Mapping[object, Type] = {
    str: "text",
    bool: "bool",
    int: "number",
    float: "number",
    list: "list",
    tuple: "list",
    Sequence: "list",
    dict: "pairs",
    Mapping: "pairs",
    Any: "any",
    inspect.Parameter.empty: "any",
}


@dataclass(frozen=True)
class OwnAction:
    """A function that plans can call; Python code calls it as before.

    Args:
        action: what plans, the checker and the planner see.
        function: the function itself.
    """

    action: Action
    function: Callable[..., Any]

    def __call__(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - any function's
        """Call the function."""
        return self.function(*args, **options)


@overload
def action(function: Callable[..., Any]) -> OwnAction: ...


@overload
def action(
    *, name: str = "", traits: Sequence[str] = ()
) -> Callable[[Callable[..., Any]], OwnAction]: ...


def action(
    function: Callable[..., Any] | None = None, *, name: str = "", traits: Sequence[str] = ()
) -> Any:
    """Make a function, sync or async, an action that plans can call. It works as a decorator.

    Args:
        function: its docstring's first paragraph is the definition that a planner reads. Its
            parameters and its result are texts, numbers, truth values, lists and dictionaries;
            one named ``document`` is given the document's text.
        name: the action's name; by default the function's name in capitals.
        traits: what may be assumed of it, as in a library. With ``cacheable`` or ``pure``, its
            results are kept in the store.

    Raises:
        InputError: the function cannot be an action; the message says what to change.
    """
    if function is None:
        return partial(action, name=name, traits=traits)
    return OwnAction(_action_of(function, name, traits), function)


def _action_of(function: Callable[..., object], name: str, traits: Sequence[str]) -> Action:
    """The action that a function carries out, as `action` has it."""
    called = getattr(function, "__name__", "")
    name = name or called.upper()

    def refused(why: str) -> InputError:
        return InputError(f"{called or function!r} can be no action: {why}")

    if not inspect.isroutine(function) or not called.isidentifier():
        raise refused("it is no function with a name of its own.")
    if not name.isidentifier() or name in (DOCUMENT, *builtins()):
        raise refused(f"{name} is no name that is free: give another with name=.")
    traits = (traits,) if isinstance(traits, str) else traits
    if unknown := set(traits) - TRAITS.keys():
        raise refused(f"there is no trait {min(unknown)}: use {', '.join(TRAITS)}.")
    doc = one_line((inspect.getdoc(function) or "").split("\n\n")[0])
    if not doc:
        raise refused("it has no docstring, and a planner reads that as its definition.")
    try:
        hints, signature = get_type_hints(function), inspect.signature(function)
    except (NameError, TypeError, ValueError) as error:
        raise refused(f"its types cannot be read ({error}).") from None
    params: list[Param] = []
    variadic = False
    if next(iter(signature.parameters), "") in ("self", "cls"):
        raise refused("it is a method of a class: make it a function.")
    for arg in signature.parameters.values():
        if arg.kind in (arg.KEYWORD_ONLY, arg.VAR_KEYWORD) or arg.default is not arg.empty:
            raise refused(f"{arg.name} has a default or a keyword, and plans give all by place.")
        variadic = arg.kind is arg.VAR_POSITIONAL
        kind = _type_of(hints.get(arg.name, arg.empty))
        if kind is None:
            raise refused(f"{arg.name} is no text, number, truth value, list or dictionary.")
        document = arg.name == "document"
        if document and (kind not in ("text", "any") or variadic):
            raise refused("the document is given as a text.")
        params.append(Param(DOCUMENT) if document else Param(arg.name.upper(), kind))
    returns = _type_of(hints.get("return", Any))
    if returns is None or not params:
        no_value = "it gives no value of a plan: no text, number, truth value, list or dictionary."
        raise refused("it takes nothing." if returns else no_value)
    place = f"{function.__module__}:{function.__qualname__}"
    body = Function(place, source_digest(function), function)
    return Action(
        name, tuple(params), returns, doc, body, variadic=variadic, traits=frozenset(traits)
    )


def _type_of(hint: object) -> Type | None:
    """The type of a plan's values that an annotation names; None where it names none."""
    if get_origin(hint) in (Union, UnionType):
        kinds = {_type_of(part) for part in get_args(hint)}
        return kinds.pop() if len(kinds) == 1 else None
    return _TYPES.get(get_origin(hint) or hint)


def as_python(value: Value) -> object:
    """A value in Python's own types: pairs as a dictionary.

    Raises:
        DecodeError: a list of pairs has a list for a key.
    """
    if isinstance(value, list):
        return [as_python(item) for item in value]
    if not isinstance(value, Pairs):
        return value
    if any(isinstance(key, list | Pairs) for key, _ in value):
        raise DecodeError("a list of pairs has a list for a key.")
    return {key: as_python(item) for key, item in value}


def as_value(data: object, most: int) -> Value:
    """The inverse of `as_python`; a tuple is a list.

    Args:
        data: what a user's function gave; reading it may raise whatever its own methods raise.
        most: the most characters of its texts, with one more for every value, as `size_of` counts.

    Raises:
        DecodeError: the data is no value, or stands deeper than `DEEPEST`.
        OversizeError: it has more than ``most``, as an iterator without an end has.
    """
    left = most

    def convert(data: object, depth: int) -> Value:
        nonlocal left
        if depth < 0 or not isinstance(data, str | int | float | list | tuple | dict):
            kind = "too deep" if depth < 0 else type(data).__name__
            message = f"it gave what is no text, number, truth value, list or dict ({kind})."
            raise DecodeError(message)
        left -= 1 + (len(data) if isinstance(data, str) else 0)
        if left < 0:
            raise OversizeError
        if isinstance(data, list | tuple):
            return [convert(item, depth - 1) for item in data]
        if isinstance(data, dict):
            pairs = ((convert(k, depth - 1), convert(val, depth - 1)) for k, val in data.items())
            return Pairs(tuple(pairs))
        return from_json(data)

    return convert(data, DEEPEST)
