"""The tools that a run may use, and every call to them.

Whether a call's arguments fit its tool.

Tools as a solver, so that a plan's steps can call them.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pearl.lang.builtins import Given
from pearl.lang.source import InputError
from pearl.lang.values import Pairs, Value, as_text, to_json
from pearl.models.transport import Redact
from pearl.run.executor import Solve, SolverError
from pearl.tools.addresses import Resolve, look_up
from pearl.tools.base import LONGEST, Service, Tool, ToolError, ToolReply, Tools
from pearl.tools.declared import Arithmetic, Declared, Http, Search, read_tools
from pearl.tools.web import hider

if TYPE_CHECKING:
    from pearl.retrieval.retriever import Retriever


LONGEST_CALL = 20_000
"""Characters of a call's arguments, as JSON."""

_SHOWN = 200


def checked(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, where they fit the tool's parameters.

    Args:
        tool: the one that is called.
        arguments: JSON values by parameter. A null for a parameter that is not
            required counts as none.

    Raises:
        ToolError: they do not; all that is wrong with them is told at once.
    """
    from jsonschema import Draft202012Validator

    optional = {one.name for one in tool.parameters if not one.required}
    given = {
        name: value
        for name, value in arguments.items()
        if value is not None or name not in optional
    }
    try:
        size = len(json.dumps(given, ensure_ascii=False, allow_nan=False).encode())
    except (ValueError, TypeError, RecursionError):
        raise ToolError("input", "The arguments are no JSON that can be sent.") from None
    if size > LONGEST_CALL:
        raise ToolError("input", f"The arguments are longer than {LONGEST_CALL:,} characters.")
    wrong = sorted(
        Draft202012Validator(tool.json_schema).iter_errors(given), key=lambda one: str(one.path)
    )
    if wrong:
        told = "; ".join(
            f"{'.'.join(map(str, one.path))}: {one.message[:_SHOWN]}"
            if one.path
            else one.message[:_SHOWN]
            for one in wrong
        )
        raise ToolError("input", f"The arguments do not fit: {told}.")
    return given


class Toolbox:
    """Tools by name, and what carries out their calls.

    Args:
        tools: by name.
        services: what carries each of them out.
        hidden: takes secrets out of a text.
    """

    def __init__(
        self, tools: Mapping[str, Tool], services: Mapping[str, Service], hidden: Redact
    ) -> None:
        self.tools = tools
        self.hidden = hidden
        self._services = services
        self._used: Counter[str] = Counter()

    def afresh(self) -> Toolbox:
        """The same tools for another question: their calls are counted anew."""
        return Toolbox(self.tools, self._services, self.hidden)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolReply:
        """Call a tool once.

        Args:
            name: its name.
            arguments: JSON values by parameter. A null for a parameter that is
                not required counts as none.

        Raises:
            ToolError: it came to nothing; nothing was sent where the reason is
                ``input``, ``address`` or ``budget``.
        """
        try:
            return await self._called(name, arguments)
        except ToolError as error:
            told = " ".join(self.hidden(str(error)).split())
            known = f"{name}: " if name in self.tools else ""
            raise ToolError(error.reason, f"{known}{told}") from None

    async def close(self) -> None:
        """Let go of connections; the tools of `afresh` share them."""
        for service in self._services.values():
            await service.close()

    async def _called(self, name: str, arguments: Mapping[str, Any]) -> ToolReply:
        tool = self.tools.get(name)
        if tool is None:
            known = ", ".join(self.tools)
            raise ToolError("input", f"There is no tool {name[:60]}: use {known}.")
        given = checked(tool, arguments)
        if self._used[name] >= tool.limits.calls:
            raise ToolError("budget", f"All {tool.limits.calls} calls of a question are made.")
        self._used[name] += 1
        try:
            async with asyncio.timeout(tool.limits.seconds):
                text = await self._services[name].answer(given)
        except TimeoutError:
            raise ToolError("time", f"No answer within {tool.limits.seconds:g} seconds.") from None
        # Before it is cut: a secret's beginning is not found any more.
        text = self.hidden(text)
        return ToolReply(text[:LONGEST], max(0, len(text) - LONGEST))


def load_tools(
    path: str, environment: Mapping[str, str] | None = None, resolve: Resolve = look_up
) -> Toolbox:
    """The tools of a file, ready to be called.

    Args:
        path: the file, in TOML (docs/tools.md).
        environment: where variables are; None for this process'.
        resolve: the addresses of a host.

    Raises:
        InputError: the file cannot be read, it has a mistake (the first is
            told, the others are counted), a variable is not set, or an index
            cannot be opened.
    """
    file = read_tools(path)
    values = os.environ if environment is None else environment
    mistakes = [*file.mistakes, *(one for tool in file.tools for one in wrong_with(tool, values))]
    if mistakes:
        more = f" {len(mistakes) - 1} more: pearl tools check {path}" if mistakes[1:] else ""
        raise InputError(f"{path}: {mistakes[0]}{more}")
    secrets = {values[name].strip() for one in file.tools for name in one.variables}
    return Toolbox(
        MappingProxyType({one.tool.name: one.tool for one in file.tools}),
        MappingProxyType({one.tool.name: _service(one, values, resolve) for one in file.tools}),
        hider(secrets),
    )


def wrong_with(declared: Declared, environment: Mapping[str, str] = os.environ) -> list[str]:
    """What keeps a tool from being called that its file does not show, a line each.

    Args:
        declared: the tool.
        environment: where variables are.
    """
    name = declared.tool.name
    wrong = []
    for variable in declared.variables:
        value = environment.get(variable, "").strip()
        if not value:
            wrong.append(f"{name}: the variable {variable} is not set: set it in the environment.")
        elif not value.isprintable():
            wrong.append(f"{name}: the variable {variable} has characters that cannot be sent.")
    if isinstance(declared.how, Search):
        from pearl.retrieval.index import open_index

        try:
            open_index(str(declared.how.index))
        except InputError as error:
            wrong.append(f"{name}.index: {error}")
    return wrong


def _service(declared: Declared, environment: Mapping[str, str], resolve: Resolve) -> Service:
    match declared.how:
        case Http() as http:
            from pearl.tools.web import Web

            return Web(http, declared.tool.limits, environment, resolve)
        case Search() as search:
            from pearl.retrieval.index import open_index

            return Searching(open_index(str(search.index)), search.passages)
        case Arithmetic():
            from pearl.tools.calculator import Calculator

            return Calculator()


class Searching:
    """A search over a corpus as a tool; its parameter is ``query``.

    Args:
        retriever: finds passages.
        passages: how many, at most.
    """

    def __init__(self, retriever: Retriever, passages: int) -> None:
        self._retriever = retriever
        self._passages = passages

    async def answer(self, arguments: Mapping[str, Any]) -> str:
        """Passages, best first, each below its title."""
        found = await asyncio.to_thread(self._retriever.search, arguments["query"], self._passages)
        told = [f"# {one.title or one.id}\n\n{one.text}\n" for one in found]
        return "\n".join(told) or "No passage matches: use other words."

    async def close(self) -> None:
        """Nothing is open."""


Told = Callable[[str, ToolReply], None]
"""Told of a reply, with the step's path; what was cut of it can be noted there."""


WRONG_INPUT = "tool-input"
"""Why a solver has no value where other arguments may mend it."""


def solver(toolbox: Tools, told: Told = lambda path, reply: None) -> Solve:
    """What calls tools for an action with ``body: solver``.

    Its arguments are a tool's name, and the call's arguments: pairs, a list of lists of two,
    or a JSON object in a text; none for a tool that needs none.

    Args:
        toolbox: the tools, of one question.
        told: told of every reply.

    Returns:
        The solver; its value is the reply's text. A call that comes to nothing
        is a `SolverError` with the tool's message; its reason is `WRONG_INPUT`
        or ``tool``.
    """

    async def solve(path: str, given: Sequence[Given]) -> Value:
        name = as_text(given[0].value)
        try:
            reply = await toolbox.call(name, arguments_of(given[1].value if given[1:] else []))
        except ToolError as error:
            reason = WRONG_INPUT if error.reason == "input" else "tool"
            raise SolverError(reason, str(error)) from None
        told(path, reply)
        return reply.text

    return solve


def arguments_of(value: Value) -> Mapping[str, Any]:
    """A call's arguments, as a step gives them.

    Args:
        value: pairs, a list of lists of two, or a JSON object in a text.

    Raises:
        ToolError: it is none of these.
    """
    match value:
        case Pairs():
            return {as_text(key): to_json(one) for key, one in value}
        case list() if all(isinstance(one, list) and len(one) == 2 for one in value):
            return {as_text(one[0]): to_json(one[1]) for one in value if isinstance(one, list)}
        case str():
            try:
                found = json.loads(value)
            except (ValueError, RecursionError):
                found = None
            if isinstance(found, dict):
                return found
    raise ToolError("input", 'Give a call\'s arguments as pairs, or as {"name": value} in JSON.')
