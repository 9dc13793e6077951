"""Reading ``tools.toml``. Every mistake in it is found at once, a line each."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from pearl.source import InputError, read_source
from pearl.tools.base import Limits, Parameter, Tool
from pearl.tools.declared import Arithmetic, Declared, How, Search
from pearl.tools.fields import Fields
from pearl.tools.http import HTTP_FIELDS, read_http

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
