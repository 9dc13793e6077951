"""Reading ``tools.toml``: the tools that it declares, and every mistake in it, a line each.

`read_tools` reads the file and looks at no variable; `load_tools` makes a toolbox of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast
from urllib.parse import parse_qsl, quote, urlsplit

from pearl.lang.source import InputError, read_source
from pearl.tools.addresses import Resolve, host_problem, is_private_literal, look_up, one_form
from pearl.tools.redaction import redaction
from pearl.tools.toolbox import Limits, Parameter, Service, Tool, Toolbox

if TYPE_CHECKING:
    from pearl.retrieval.retriever import Retriever
    from pearl.tools.web import Web

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""Where a value of the environment stands in a text of the file."""

HOLE = re.compile(r"\{([^{}]*)\}")
"""Where a parameter stands in an endpoint's path."""

USUAL_PORTS = {"http": 80, "https": 443}

Scalar: TypeAlias = "str | int | float | bool"


@dataclass(frozen=True, slots=True)
class Http:
    """A service over HTTP.

    Args:
        method: GET sends arguments in the address, POST as a JSON object.
        scheme: ``http`` or ``https``.
        host: its name or address, without brackets, in small letters.
        port: of it.
        path: with the names of parameters in braces.
        query: what the address always has after ``?``.
        static: what every call has, by name; texts may have variables.
        headers: the same.
        ca: a file of certificates to trust in place of the system's; empty for those.
    """

    method: Literal["GET", "POST"]
    scheme: Literal["http", "https"]
    host: str
    port: int
    path: str
    query: str
    static: Mapping[str, Scalar]
    headers: Mapping[str, str]
    ca: str

    @property
    def origin(self) -> str:
        """Scheme, host and port: all that is ever connected to."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = USUAL_PORTS[self.scheme] == self.port
        return f"{self.scheme}://{host}{'' if usual else f':{self.port}'}"

    @property
    def holes(self) -> tuple[str, ...]:
        """The names in the path."""
        return tuple(HOLE.findall(self.path))


@dataclass(frozen=True, slots=True)
class Search:
    """A search in an index that ``pearl index`` made.

    Args:
        index: its folder.
        passages: how many a call gives, at most.
    """

    index: Path
    passages: int


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The calculator."""


How: TypeAlias = "Http | Search | Arithmetic"


@dataclass(frozen=True, slots=True)
class Declared:
    """A tool, and how it is carried out.

    Args:
        tool: as whoever uses it sees it.
        how: what it takes.
    """

    tool: Tool
    how: How

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the environment that it needs, once each."""
        if not isinstance(self.how, Http):
            return ()
        values = (*self.how.static.values(), *self.how.headers.values())
        texts = [value for value in values if isinstance(value, str)]
        return tuple(dict.fromkeys(name for text in texts for name in VARIABLE.findall(text)))


def filled(value: Any, environment: Mapping[str, str]) -> Any:  # noqa: ANN401 - any scalar
    """A value with its variables filled in; other kinds than texts are as they were.

    Args:
        value: a static parameter or a header.
        environment: has every variable.
    """
    if not isinstance(value, str):
        return value
    return VARIABLE.sub(lambda found: environment[found[1]].strip(), value)


@dataclass(frozen=True, slots=True)
class Fields:
    """A table, and where what is wrong with it goes.

    Args:
        place: where it stands, as ``weather.limits``.
        data: its keys and values.
        mistakes: one line each.
    """

    place: str
    data: Mapping[str, Any]
    mistakes: list[str]

    def wrong(self, message: str, key: str = "") -> None:
        """Note a mistake of this table, or of one of its fields."""
        place = f"{self.place}.{key}" if key else self.place
        self.mistakes.append(" ".join(f"{place}: {message}".split()))

    def only(self, known: Sequence[str]) -> None:
        """Note every field but these, with the one that is meant where there is such a one."""
        for key in self.data:
            if key not in known:
                close = get_close_matches(key, known, 1)
                use = f"do you mean {close[0]}?" if close else f"use {', '.join(known)}."
                self.wrong(f"there is no such field: {use}", key)

    def text(self, key: str, default: str | None = None) -> str:
        """A text in one line that is not empty."""
        value = self.data.get(key, default)
        if isinstance(value, str) and value.strip() and value.isprintable():
            return value.strip()
        self.wrong("give a text, in one line.", key)
        return default or ""

    def choice(self, key: str, known: Sequence[str], default: str) -> str:
        """One of a few words."""
        value = self.data.get(key, default)
        if value in known:
            return str(value)
        self.wrong(f"use {' or '.join(known)}.", key)
        return default

    def number(self, key: str, default: float, most: float) -> float:
        """A number above 0."""
        value = self.data.get(key, default)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= most:
            return value
        self.wrong(f"give a number above 0, and up to {most:,}.", key)
        return default

    def whole(self, key: str, default: int, most: int) -> int:
        """A whole number above 0."""
        value = self.data.get(key, default)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= most:
            return value
        self.wrong(f"give a whole number above 0, and up to {most:,}.", key)
        return default

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self.data.get(key, default)
        if isinstance(value, bool):
            return value
        self.wrong("give true or false.", key)
        return default

    def table(self, key: str) -> Fields:
        """A table in this one; empty where it is not there."""
        value = self.data.get(key, {})
        if not isinstance(value, dict):
            self.wrong(f"give a table, as [{self.place}.{key}].", key)
            value = {}
        return Fields(f"{self.place}.{key}", value, self.mistakes)

    def tables(self) -> Iterator[tuple[str, Fields]]:
        """The tables in this one, by name."""
        for key in self.data:
            yield key, self.table(key)


HTTP_FIELDS = ("method", "endpoint", "static", "headers", "ca")

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OURS = ("host", "content-length", "transfer-encoding", "connection", "accept-encoding")
"""Headers that a file may not set: they say where a call goes and how it is read."""

_SECRET = re.compile(r"key(?!word)|token|secret|authorization|cookie", re.IGNORECASE)
"""What is in the name of a header or parameter whose value only its owner may know."""

_COUNT = re.compile("tokens", re.IGNORECASE)
"""What is in the name of a number that is no secret (``max_tokens``)."""

_LEFT = "/:@!$&'()*+,;=-._~%{}"
"""Characters of a path that stay as they are."""


def read_http(fields: Fields, parameters: Sequence[Parameter], folder: Path) -> Http | None:
    """What a tool's table says of its service; None where its endpoint cannot be used.

    Args:
        fields: the tool's table.
        parameters: the tool's.
        folder: where the file's relative paths begin.
    """
    method = fields.choice("method", ("GET", "POST"), "GET")
    table = fields.table("static")
    static = {name: _scalar(table, name) for name in table.data}
    headers = _headers(fields.table("headers"))
    for parameter in parameters:
        if parameter.name in static:
            message = "it is a parameter and static: leave one of the two out."
            fields.wrong(message, parameter.name)
    ca = _ca(fields, folder)
    text = fields.text("endpoint")
    if not text:
        return None
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        fields.wrong("that is no address: write it as https://host/path.", "endpoint")
        return None
    problem = _problem(text, parts.scheme, parts.hostname or "", "@" in parts.netloc)
    if port == 0 or parts.netloc.endswith(":"):
        problem = problem or "there is no such port"
    if problem:
        fields.wrong(f"{problem}.", "endpoint")
        return None
    host = one_form(parts.hostname or "")
    if is_private_literal(host) and fields.table("limits").data.get("private") is not True:
        fields.wrong(
            f"{host} is on this machine or in a private network: say private = true in "
            f"[{fields.place}.limits], where that is meant.",
            "endpoint",
        )
    for name, value in parse_qsl(parts.query):
        if _SECRET.search(name) and not _COUNT.search(name) and not VARIABLE.search(value):
            fields.wrong(
                f"{name} looks like a secret: give it in static, as ${{NAME}}.", "endpoint"
            )
    path = quote(parts.path or "/", safe=_LEFT)
    query = quote(parts.query, safe=_LEFT + "?")
    scheme = cast(Literal["http", "https"], parts.scheme)
    http = Http(
        cast(Literal["GET", "POST"], method),
        scheme,
        host,
        port or USUAL_PORTS[scheme],
        path,
        query,
        static,
        headers,
        ca,
    )
    _check_holes(fields, http, parameters)
    return http


def _problem(text: str, scheme: str, host: str, userinfo: bool) -> str:
    if VARIABLE.search(text):
        return "a variable may stand in static and in headers only"
    if scheme not in ("http", "https"):
        return "only http and https are called: write it as https://host/path"
    if userinfo:
        return "a name and password may not stand in it: use a header, with a variable"
    if "#" in text:
        return "leave out what stands from # on: it is never sent"
    if not host:
        return "it has no host: write it as https://host/path"
    return host_problem(host)


def _check_holes(fields: Fields, http: Http, parameters: Sequence[Parameter]) -> None:
    known = {one.name: one for one in parameters}
    for name in http.holes:
        one = known.get(name)
        if one is None and name not in http.static:
            fields.wrong(f"{{{name}}} is no parameter and not static: declare it.", "endpoint")
        elif one and (not one.required or json.loads(one.schema)["type"] == "array"):
            fields.wrong(f"{{{name}}} is to be required, and no array.", "endpoint")
    if {"{", "}"} & set(HOLE.sub("", http.path) + http.query):
        fields.wrong("braces stand around a parameter's name, in the path only.", "endpoint")


def _scalar(fields: Fields, name: str) -> Scalar:
    value = fields.data[name]
    if not isinstance(value, str | int | float):
        fields.wrong("give a text, a number, true or false.", name)
        return ""
    if isinstance(value, str):
        _check_variables(fields, name, value)
    _check_secret(fields, name, value)
    return value


def _headers(fields: Fields) -> dict[str, str]:
    headers = {}
    for name, value in fields.data.items():
        if not _HEADER.fullmatch(name) or name.lower() in _OURS:
            fields.wrong("such a header cannot be set: leave it out.", name)
        elif not isinstance(value, str) or not value.isprintable():
            fields.wrong("give a text, in one line.", name)
        else:
            _check_variables(fields, name, value)
            _check_secret(fields, name, value)
            headers[name] = value
    return headers


def _check_variables(fields: Fields, name: str, value: str) -> None:
    if "${" in VARIABLE.sub("", value):
        fields.wrong("write a variable as ${NAME}, of letters, digits and _.", name)


def _check_secret(fields: Fields, name: str, value: Scalar) -> None:
    """A secret in the file would be read by all who see it, and masked nowhere."""
    if isinstance(value, str):
        literal = bool(value.strip()) and not VARIABLE.search(value)
    else:
        literal = not isinstance(value, bool) and not _COUNT.search(name)
    if literal and _SECRET.search(name):
        fields.wrong("that looks like a secret: write it as ${NAME}, and set NAME.", name)


def _ca(fields: Fields, folder: Path) -> str:
    if "ca" not in fields.data:
        return ""
    path = folder / fields.text("ca")
    try:
        ssl.create_default_context(cafile=str(path))
    except (OSError, ValueError):
        # Whatever is wrong with the certificates is an OSError too.
        fields.wrong("that is no file of certificates: give one in PEM.", "ca")
    return str(path)


_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_RESERVED = ("none",)
"""What REBEL's choice of a tool says where it takes none."""

_TYPES = ("string", "number", "integer", "boolean", "array")
_KEYWORDS = (
    "enum", "minimum", "maximum", "minLength", "maxLength", "pattern", "items", "minItems",
    "maxItems",
)  # fmt: skip
"""What of JSON Schema a parameter may say of its values beside their type."""

_EXPRESSION = Parameter(
    "expression",
    "numbers with + - * / // % **, parentheses, and sqrt, abs, floor, ceil, round, min, max",
    '{"type": "string", "minLength": 1}',
)
_QUERY = Parameter("query", "the words to look for", '{"type": "string", "minLength": 1}')
_COMMON = ("kind", "about", "limits")
_MOST_PASSAGES = 100


@dataclass(frozen=True, slots=True)
class ToolsFile:
    """What a file declares.

    Args:
        path: the file.
        tools: those that can be read, in its order.
        mistakes: what is wrong with it, a line each.
    """

    path: str
    tools: tuple[Declared, ...]
    mistakes: tuple[str, ...]


def read_tools(path: str) -> ToolsFile:
    """Read a file of tools; no variable is looked at and nothing is opened.

    Args:
        path: the file, in TOML.

    Raises:
        InputError: it cannot be read, or is not TOML.
    """
    try:
        data = tomllib.loads(read_source(path, "tools").text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        told = " ".join(str(error).split()).rstrip(".") or "it is nested too deep"
        raise InputError(f"{path} is not TOML: {told}.") from None
    mistakes: list[str] = []
    tools = []
    for name, table in data.items():
        before = len(mistakes)
        if not _NAME.fullmatch(name) or name in _RESERVED:
            mistakes.append(
                f"{json.dumps(name)[:80]}: that is no tool's name: use small letters, digits and "
                f"_, a letter first{', and another word than none' if name in _RESERVED else ''}."
            )
        elif not isinstance(table, dict):
            mistakes.append(f"{name}: give a table, as [{name}].")
        else:
            tool = _read_tool(name, Fields(name, table, mistakes), Path(path).parent)
            if len(mistakes) == before and tool:
                tools.append(tool)
    if not data:
        mistakes.append("there is no tool in it: declare one, as [weather].")
    return ToolsFile(path, tuple(tools), tuple(mistakes))


def _read_tool(name: str, fields: Fields, folder: Path) -> Declared | None:
    kind = fields.choice("kind", ("http", "calculator", "search"), "http")
    parameters: tuple[Parameter, ...]
    how: How | None
    match kind:
        case "calculator":
            fields.only(_COMMON)
            about = fields.text("about", "Works out an arithmetic expression.")
            parameters, how = (_EXPRESSION,), Arithmetic()
        case "search":
            fields.only((*_COMMON, "index", "passages"))
            about = fields.text("about", "Finds passages that bear on a query.")
            passages = fields.whole("passages", 5, _MOST_PASSAGES)
            parameters, how = (_QUERY,), Search(folder / fields.text("index"), passages)
        case _:
            fields.only((*_COMMON, "parameters", *HTTP_FIELDS))
            about = fields.text("about")
            parameters = tuple(
                _parameter(key, table) for key, table in fields.table("parameters").tables()
            )
            how = read_http(fields, parameters, folder)
    limits = _limits(fields.table("limits"), network=kind == "http")
    return Declared(Tool(name, about, parameters, limits), how) if how else None


def _limits(fields: Fields, *, network: bool) -> Limits:
    usual = Limits()
    fields.only(("seconds", "calls", *(("bytes", "private") if network else ())))
    return Limits(
        fields.number("seconds", usual.seconds, 600),
        fields.whole("bytes", usual.bytes, 100_000_000),
        fields.whole("calls", usual.calls, 10_000),
        fields.flag("private", usual.private),
    )


def _parameter(name: str, fields: Fields) -> Parameter:
    if not _PARAMETER.fullmatch(name):
        fields.wrong("that is no parameter's name: use letters, digits, _, . and -.")
    fields.only(("about", "type", "required", *_KEYWORDS))
    kind = fields.choice("type", _TYPES, "string")
    schema = {"type": kind, **{key: fields.data[key] for key in _KEYWORDS if key in fields.data}}
    _check_schema(fields, schema)
    return Parameter(
        name,
        fields.text("about"),
        json.dumps(schema, ensure_ascii=False, default=str),
        fields.flag("required", True),
    )


def _check_schema(fields: Fields, schema: dict[str, object]) -> None:
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        fields.wrong(f"{error.message[:200]}.", ".".join(map(str, error.path)))


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
    services: dict[str, Service] = {}
    webs: list[Web] = []
    for declared in file.tools:
        match declared.how:
            case Http() as http:
                from pearl.tools.web import Web

                webs.append(Web(http, declared.tool.limits, values, resolve))
                services[declared.tool.name] = webs[-1].answer
            case Search() as search:
                from pearl.retrieval.index import open_index

                index = open_index(str(search.index))
                services[declared.tool.name] = partial(_search, index, search.passages)
            case _:
                services[declared.tool.name] = _calculate
    return Toolbox(
        MappingProxyType({declared.tool.name: declared.tool for declared in file.tools}),
        MappingProxyType(services),
        redaction({values[name].strip() for one in file.tools for name in one.variables}),
        webs,
    )


async def _search(retriever: Retriever, most: int, arguments: Mapping[str, Any]) -> str:
    """Passages of an index, best first, each below its title."""
    passages = await asyncio.to_thread(retriever.search, arguments["query"], most)
    texts = [f"# {passage.title or passage.id}\n\n{passage.text}\n" for passage in passages]
    return "\n".join(texts) or "No passage matches: use other words."


async def _calculate(arguments: Mapping[str, Any]) -> str:
    """What an expression comes to."""
    from pearl.tools.calculator import calculate

    return calculate(arguments["expression"])


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
