"""Tools that are functions of a person's own, as `pearl.action` makes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from pearl.lang.ast import DOCUMENT, Action, Function, Literal
from pearl.lang.builtins import Given
from pearl.lang.extensions import extension
from pearl.lang.functions import OwnAction
from pearl.lang.source import InputError
from pearl.lang.values import DecodeError, Type, as_text, from_json
from pearl.runtime.binding import StepError
from pearl.runtime.functions import carry_out
from pearl.tools.toolbox import Parameter, Service, Tool, Toolbox, ToolError

_SCHEMAS: Mapping[Type, dict[str, str]] = {
    "any": {},
    "text": {"type": "string"},
    "number": {"type": "number"},
    "bool": {"type": "boolean"},
    "list": {"type": "array"},
    "pairs": {"type": "object"},
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A function that an installed package offers as a tool, by its entry point's name."""

    name: str
    action: Action


def find_entry(name: str) -> Entry:
    """The function that a package offers under a name in the group ``pearl.tools``.

    Raises:
        InputError: there is none, or it is no action.
    """
    function = extension("tools", name)
    if function is None:
        raise InputError(f"no installed package offers {name or 'a tool without a name'}.")
    if not isinstance(function, OwnAction):
        raise InputError(f"{name} is to be a function that pearl.action made an action.")
    return Entry(name, function.action)


def function_tool(action: Action) -> tuple[Tool, Service]:
    """A tool that a function carries out, with its name in small letters, and what calls it.

    Args:
        action: as `pearl.action` makes it.

    Raises:
        InputError: no tool can be made of it.
    """
    if not isinstance(action.body, Function):
        raise InputError(f"{action.name} is no function: make one with pearl.action.")
    if action.variadic or any(param.name == DOCUMENT for param in action.params):
        raise InputError(f"{action.name} is no tool: a tool has named parameters, and no document.")
    parameters = tuple(
        Parameter(param.name.lower(), param.name.lower(), json.dumps(_SCHEMAS[param.type]))
        for param in action.params
    )
    tool = Tool(action.name.lower(), action.doc, parameters)
    return tool, partial(_call, action)


def function_tools(actions: Iterable[Action]) -> Toolbox:
    """A toolbox of functions, as `function_tool` makes tools of them and raises `InputError`."""
    pairs = [function_tool(action) for action in actions]
    tools = MappingProxyType({tool.name: tool for tool, _ in pairs})
    services = MappingProxyType({tool.name: service for tool, service in pairs})
    return Toolbox(tools, services, lambda text: text)


async def _call(action: Action, arguments: Mapping[str, Any]) -> str:
    args: list[Given] = []
    for param in action.params:
        data = arguments[param.name.lower()]
        if isinstance(data, dict):
            data = {"pairs": [[key, item] for key, item in data.items()]}
        try:
            value = from_json(data)
        except DecodeError as error:
            raise ToolError("input", f"{param.name.lower()}: {error}.") from None
        args.append(Given(Literal(value), value))
    try:
        return as_text((await carry_out(action, args, None, None)).value)
    except StepError as error:
        raise ToolError("reply", str(error)) from None
