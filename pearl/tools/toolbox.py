"""The tools that a run may use, and every call to them."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pearl.llm.failures import Hidden
from pearl.source import InputError
from pearl.tools.addresses import Resolve, look_up
from pearl.tools.base import LONGEST, Service, Tool, ToolError, ToolReply
from pearl.tools.checking import checked
from pearl.tools.declared import Arithmetic, Declared, Http, Search
from pearl.tools.hiding import hider
from pearl.tools.reading import read_tools

if TYPE_CHECKING:
    from pearl.retrieval import Retriever


class Toolbox:
    """Tools by name, and what carries out their calls.

    Args:
        tools: by name.
        services: what carries each of them out.
        hidden: takes secrets out of a text.
    """

    def __init__(
        self, tools: Mapping[str, Tool], services: Mapping[str, Service], hidden: Hidden
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
        from pearl.retrieval import open_index

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
            from pearl.retrieval import open_index

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
