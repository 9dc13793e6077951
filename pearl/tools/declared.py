"""Reads declarations of tools: in ``tools.toml``, or functions wrapped by `pearl.action`.

`read_tools` reads the file and finds every mistake in it, without looking at the environment;
`load_tools` makes a toolbox of the file, and `function_tools` one of functions.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pearl.lang.ast import DOCUMENT, Action, Function, Literal
from pearl.lang.builtins import Given
from pearl.lang.entry_points import extension
from pearl.lang.errors import InputError, install_command
from pearl.lang.functions import OwnAction
from pearl.lang.source import read_source, read_toml
from pearl.lang.values import DecodeError, Type, as_text, canonical_json, from_json
from pearl.models.secrets import Redact, redaction
from pearl.retrieval.retriever import Retriever
from pearl.runtime.binding import StepError, carry_out
from pearl.tools.endpoint import (
    VARIABLE,
    Http,
    McpServer,
    Resolve,
    TomlTable,
    look_up,
    read_http,
    read_server,
)
from pearl.tools.toolbox import (
    PARAMETER_NAME,
    TOOL_NAME,
    Parameter,
    Service,
    Tool,
    Toolbox,
    ToolError,
    ToolLimits,
    check_arguments,
)

if TYPE_CHECKING:
    from pearl.tools.mcp import Connection


@dataclass(frozen=True, slots=True)
class Search:
    """A search in an index that ``pearl index`` made; ``passages`` is the most for each call."""

    index: Path
    passages: int


@dataclass(frozen=True, slots=True)
class InstalledTool:
    """A function that an installed package offers as a tool, by its entry point's name."""

    name: str
    action: Action


@dataclass(frozen=True, slots=True)
class Declaration:
    """A tool, or a server of several tools, and how it is carried out.

    Args:
        tool: the tool, as its users see it; for a server what its tools have in common.
        how: the settings of its kind; None for the calculator, which has none.
    """

    tool: Tool
    how: Http | Search | McpServer | InstalledTool | None

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the environment variables that it needs, once each."""
        match self.how:
            case Http(static=own, headers=headers) | McpServer(environment=own, headers=headers):
                values = [*own.values(), *headers.values()]
            case _:
                values = []
        texts = (value for value in values if isinstance(value, str))
        return tuple(dict.fromkeys(name for text in texts for name in VARIABLE.findall(text)))


@dataclass(frozen=True, slots=True)
class ToolsFile:
    """The contents of a file of tools.

    Args:
        tools: the tools that can be read, in order.
        mistakes: the mistakes in the file, a line each.
    """

    tools: tuple[Declaration, ...]
    mistakes: tuple[str, ...]


NO_TOOLS = "none"
"""Stands in place of a file for no tools. No tool may have this name, as REBEL's choice of a tool
gives it for none."""

_KEYWORDS = (
    *("enum", "minimum", "maximum", "minLength", "maxLength", "pattern"),
    *("items", "minItems", "maxItems"),
)
"""The keywords of JSON Schema that a parameter may have beside its type."""

_WORDS = '{"type": "string", "minLength": 1}'
_EXPRESSION = Parameter(
    "expression",
    "numbers with + - * / // % **, parentheses, and sqrt, abs, floor, ceil, round, min, max",
    _WORDS,
)
_COMMON = ("kind", "about", "limits", "examples")


def read_tools(path: str) -> ToolsFile:
    """Read a file of tools. No variable is looked at, and no index or server is opened.

    Args:
        path: the file, in TOML, or `NO_TOOLS`.

    Raises:
        InputError: it cannot be read, or is not TOML.
    """
    if path == NO_TOOLS:
        return ToolsFile((), ())
    data = read_toml(read_source(path, "tools").text, path)
    mistakes: list[str] = []
    tools = []
    for name, table in data.items():
        before = len(mistakes)
        if not TOOL_NAME.fullmatch(name) or name == NO_TOOLS:
            mistakes.append(
                f"{json.dumps(name)[:80]}: that is no tool's name: use small letters, digits and "
                f"_, a letter first{', and another word than none' if name == NO_TOOLS else ''}."
            )
        elif not isinstance(table, dict):
            mistakes.append(f"{name}: give a table, as [{name}].")
        else:
            tool = _read_tool(TomlTable(name, table, mistakes), Path(path).parent)
            if len(mistakes) == before:
                tools.append(tool)
    if not data:
        mistakes.append("there is no tool in it: declare one, as [weather].")
    return ToolsFile(tuple(tools), tuple(mistakes))


def _read_tool(table: TomlTable, folder: Path) -> Declaration:
    """The tool that a table declares; it cannot be used if a mistake was noted."""
    table.nearly("kind", 0.7)
    kind = table.choice("kind", "http", "calculator", "search", "mcp", "python")
    if table.data.get("kind", kind) != kind:
        # For an unknown kind, it is not known which fields it may have.
        return Declaration(Tool(table.place, "", ()), None)
    parameters: tuple[Parameter, ...] = (_EXPRESSION,)
    how: Http | Search | McpServer | InstalledTool | None = None
    match kind:
        case "calculator":
            table.only(*_COMMON)
            about = table.text("about", "Works out an arithmetic expression.")
        case "search":
            table.only(*_COMMON, "index", "passages")
            about = table.text("about", "Finds passages that bear on a query.")
            parameters = (Parameter("query", "the words to look for", _WORDS),)
            passages = table.number("passages", 5, 100)
            how = Search(folder / table.text("index"), passages)
        case "mcp":
            about, parameters, how = "", (), read_server(table, folder)
        case "python":
            table.only(*_COMMON, "entry")
            about = ""
            if entry := table.text("entry"):
                try:
                    how = find_entry(entry)
                    own, _ = function_tool(how.action)
                    about, parameters = table.text("about", own.about), own.parameters
                except InputError as error:
                    table.wrong(str(error), "entry")
        case _:
            service = ("method", "endpoint", "static", "headers", "ca")
            table.only(*_COMMON, "parameters", *service)
            about = table.text("about")
            declared = table.table("parameters")
            parameters = tuple(_parameter(name, declared.table(name)) for name in declared.data)
            how = read_http(table, parameters, folder)
    limits, usual = table.table("limits"), ToolLimits()
    limits.only("seconds", "calls", *(("bytes", "private") if kind in ("http", "mcp") else ()))
    read = ToolLimits(
        limits.number("seconds", usual.seconds, 600),
        limits.number("bytes", usual.bytes, 100_000_000),
        limits.number("calls", usual.calls, 10_000),
        limits.flag("private", default=usual.private),
    )
    tool = Tool(table.place, about, parameters, read)
    return Declaration(replace(tool, examples=tuple(_examples(table, tool))), how)


def _examples(table: TomlTable, tool: Tool) -> Iterator[tuple[str, str]]:
    """A tool's examples: questions, each with the arguments of a call."""
    form = f"give tables, as [[{tool.name}.examples]]"
    are_tables = lambda value: all(isinstance(item, dict) for item in value)  # noqa: E731
    for number, data in enumerate(table.value("examples", [], form, are_tables), 1):
        example = TomlTable(f"{tool.name}.examples[{number}]", data, table.mistakes)
        example.only("question", "arguments")
        question, arguments = example.text("question"), example.table("arguments").data
        try:
            yield question, canonical_json(check_arguments(tool, arguments))
        except ToolError as error:
            example.wrong(str(error), "arguments")


def _parameter(name: str, table: TomlTable) -> Parameter:
    import regex
    from jsonschema import Draft202012Validator, SchemaError

    if not PARAMETER_NAME.fullmatch(name):
        table.wrong("that is no parameter's name: use letters, digits, _, . and -.")
    table.only("about", "type", "required", *_KEYWORDS)
    kind = table.choice("type", "string", "number", "integer", "boolean", "array")
    full = {"type": kind, **{key: table.data[key] for key in _KEYWORDS if key in table.data}}
    schema = {"type": kind}
    try:
        Draft202012Validator.check_schema(full)
        regex.compile(str(full.get("pattern", "")))
        # Examples are checked against it, so it must be valid.
        schema = full
    except SchemaError as error:
        table.wrong(f"{error.message[:200]}.", ".".join(map(str, error.path)))
    except regex.error as error:
        table.wrong(f"that is no regular expression: {error}.", "pattern")
    schema_text = json.dumps(schema, ensure_ascii=False, default=str)
    return Parameter(name, table.text("about"), schema_text, table.flag("required", default=True))


def check_tools(tools: str | Iterable[Action], environment: Mapping[str, str] | None) -> ToolsFile:
    """Check that tools can be used, and give what a file declares; no server is asked.

    Args:
        tools: the path of a file, `NO_TOOLS`, or functions as tools.
        environment: the environment that must have the tools' variables; None to check only the
            declarations.

    Raises:
        InputError: they cannot be used; it names the first mistake, and how many more there are.
    """
    if not isinstance(tools, str):
        function_tools(tools)
        return ToolsFile((), ())
    file = read_tools(tools)
    mistakes = [*file.mistakes]
    if environment is not None:
        mistakes += (line for tool in file.tools for line in faults_of(tool, environment))
    if mistakes:
        more = f" {len(mistakes) - 1} more: pearl tools check {tools}" if mistakes[1:] else ""
        raise InputError(f"{tools}: {mistakes[0]}{more}")
    return file


def load_tools(
    path: str, environment: Mapping[str, str] | None = None, resolve: Resolve = look_up
) -> Toolbox:
    """The tools of a file, ready to be called.

    Args:
        path: the file, in TOML (docs/tools.md), or `NO_TOOLS`.
        environment: the environment variables; None for those of this process.
        resolve: gives the addresses of a host.

    Raises:
        InputError: the file cannot be read, it has a mistake (the first is
            named, the others are counted), a variable is not set, an index
            cannot be opened, or a server cannot be reached.
    """
    values = os.environ if environment is None else environment
    file = check_tools(path, values)
    tools, services = dict[str, Tool](), dict[str, Service]()
    closing: list[Callable[[], Awaitable[None]]] = []
    redact = redaction({values[name].strip() for tool in file.tools for name in tool.variables})
    with ExitStack() as begun:
        for declared in file.tools:
            tool = declared.tool
            match declared.how:
                case Http() as http:
                    from pearl.tools.web import Web

                    web = Web(http, tool.limits, values, resolve)
                    closing.append(web.close)
                    served: list[tuple[Tool, Service]] = [(tool, web.answer)]
                case Search(index, passages):
                    from pearl.retrieval.index import open_index

                    served = [(tool, partial(_search, open_index(str(index)), passages))]
                case None:
                    served = [(tool, _calculate)]
                case InstalledTool(action=action):
                    served = [(tool, function_tool(action)[1])]
                case server:
                    connection = _connect(server, tool, values, redact, resolve)
                    begun.callback(connection.end)
                    closing.append(connection.close)
                    served = connection.offered()
            for tool, service in served:
                if tool.name in tools:
                    raise InputError(f"{path}: two tools are named {tool.name}: rename a table.")
                tools[tool.name], services[tool.name] = tool, service
        begun.pop_all()
    return Toolbox(MappingProxyType(tools), MappingProxyType(services), redact, closing)


def _connect(
    server: McpServer, common: Tool, values: Mapping[str, str], redact: Redact, resolve: Resolve
) -> Connection:
    """A connection to a server; an `InputError` where the SDK is not installed."""
    try:
        from pearl.tools.mcp import Connection
    except ImportError:
        raise InputError(f"{server.place}: It needs {install_command('mcp')}.") from None
    return Connection(server, common, values, redact, resolve)


async def _search(retriever: Retriever, most: int, arguments: Mapping[str, Any]) -> str:
    """The passages of a search, best first, each below its title."""
    passages = await asyncio.to_thread(retriever.search, arguments["query"], most)
    texts = [f"# {passage.title or passage.id}\n\n{passage.text}\n" for passage in passages]
    return "\n".join(texts) or "No passage matches: use other words."


async def _calculate(arguments: Mapping[str, Any]) -> str:
    from pearl.tools.calculator import calculate

    return calculate(arguments["expression"])


def faults_of(declared: Declaration, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Why a tool that is declared without mistakes cannot be called, a line for each reason."""
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


def expand_server(declared: Declaration) -> list[Declaration]:
    """A list of the tool; for a server, of its tools, for which it is asked.

    Raises:
        InputError: as `Connection.offered`, or the SDK is not installed.
    """
    if not isinstance(declared.how, McpServer):
        return [declared]
    redact = redaction(os.environ[name].strip() for name in declared.variables)
    connection = _connect(declared.how, declared.tool, os.environ, redact, look_up)
    try:
        return [replace(declared, tool=tool) for tool, _ in connection.offered()]
    finally:
        connection.end()


# --- functions in Python ---

_SCHEMAS: Mapping[Type, dict[str, str]] = {
    "any": {},
    "text": {"type": "string"},
    "number": {"type": "number"},
    "bool": {"type": "boolean"},
    "list": {"type": "array"},
    "pairs": {"type": "object"},
}


def find_entry(name: str) -> InstalledTool:
    """The function that a package offers under a name in the group ``pearl.tools``.

    Raises:
        InputError: no package offers it, or `pearl.action` did not wrap it.
    """
    function = extension("tools", name)
    if function is None:
        raise InputError(f"no installed package offers {name or 'a tool without a name'}.")
    if not isinstance(function, OwnAction):
        raise InputError(f"{name} is to be a function that pearl.action made an action.")
    return InstalledTool(name, function.action)


def function_tool(action: Action) -> tuple[Tool, Service]:
    """A tool that a function, as `pearl.action` makes one, carries out, named after it in lower
    case, and its service.

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
    return tool, partial(_carry_out, action)


def function_tools(actions: Iterable[Action]) -> Toolbox:
    """A toolbox of functions, of which `function_tool` makes tools, or raises an `InputError`."""
    pairs = [function_tool(action) for action in actions]
    tools = MappingProxyType({tool.name: tool for tool, _ in pairs})
    services = MappingProxyType({tool.name: service for tool, service in pairs})
    return Toolbox(tools, services, lambda text: text)


async def _carry_out(action: Action, arguments: Mapping[str, Any]) -> str:
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
