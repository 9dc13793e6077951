"""Tools of servers of the Model Context Protocol (MCP), called through the official SDK's client.

A server is a program that is started here, or is called over HTTP with the restrictions of
`pearl.tools.web`. What it says of its tools is not trusted. The SDK is an optional dependency, so
this module is imported only where a server is declared.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from shutil import which
from tempfile import TemporaryFile
from typing import Any

import aiohttp
import httpx2
import mcp
import regex
from anyio.from_thread import BlockingPortal, start_blocking_portal
from jsonschema import Draft202012Validator, SchemaError
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT
from pydantic import ValidationError
from yarl import URL

from pearl.lang.errors import InputError
from pearl.lang.text import one_line
from pearl.models.secrets import Redact
from pearl.tools.endpoint import McpServer, Resolve, origin_of, with_variables
from pearl.tools.toolbox import PARAMETER_NAME, TOOL_NAME, Parameter, Service, Tool, ToolError
from pearl.tools.web import open_session, oversized, refusal, unreached

STARTING = 30.0
"""The least timeout, in seconds, of each answer while a session begins."""

LISTING = 1_000_000
"""The least limit of an answer, in bytes, as the list of a server's tools is an answer too."""

RELAY = """
import os, subprocess, sys, threading
most = left = int(sys.argv[1])
said = b""
def listen():
    global said
    while piece := os.read(program.stderr.fileno(), 1 << 16):
        said = (said + piece)[-10_000:]
program = subprocess.Popen(sys.argv[2:], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
listener = threading.Thread(target=listen, daemon=True)
listener.start()
while piece := program.stdout.read1(1 << 16):
    ended = piece.rfind(b"\\n") + 1
    left = (most if ended else left) - len(piece) + ended
    if left < 0:
        program.kill()
        break
    sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
else:
    code = program.wait()
    listener.join(1)
    *whole, last = said.rstrip().split(b"\\n")
    # Of a line that is cut, a key may be cut, too, and no longer known for one.
    sys.stderr.buffer.write(b"%d %s" % (code, last if whole or len(said) < 10_000 else b""))
    sys.stderr.buffer.flush()
program.wait()
"""
"""A relay between a program and the SDK, which would read a line of any length: it kills a program
at a line that is too long, and writes the exit code and the last line of errors at its end."""

LONGEST_ABOUT = 300
"""The most characters of a server's description of a tool or a parameter."""

LARGEST_SCHEMA = 2_000
"""The most parts of a parameter's schema, once its references are resolved."""

_KEYWORDS = (
    *("type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("multipleOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "required"),
)
"""Keywords of JSON Schema that hold no schema. Those that are missing here or below are left to the
server, which checks arguments too."""


class Connection:
    """A session with a server, which is opened when it is needed, and used by any event loop.

    The SDK requires that one task opens and closes a session, so the session has its own thread.

    Args:
        server: the server, as declared.
        common: a tool with what all tools of the server have in common.
        environment: the environment variables that it needs.
        redact: takes secrets out of a text.
        resolve: gives the addresses of a host.
    """

    def __init__(
        self,
        server: McpServer,
        common: Tool,
        environment: Mapping[str, str],
        redact: Redact,
        resolve: Resolve,
    ) -> None:
        self._server, self._common, self._redact, self._resolve = server, common, redact, resolve
        self._environment = with_variables(server.environment, environment)
        self._headers = with_variables(server.headers, environment)
        self._lock = threading.Lock()
        self._open: tuple[ExitStack, BlockingPortal, mcp.Client] | None = None
        self._wrong: ToolError | None = None
        self._ended = ""

    def offered(self) -> list[tuple[Tool, Service]]:
        """The tools that may be called, each with its service.

        Raises:
            InputError: the server cannot be reached, or a declared tool is missing or not callable.
        """
        server = self._server
        pairs: list[tuple[Tool, Service]] = []
        try:
            portal, client = self._session()
            listed = portal.call(_list_tools, client)
            if missing := [name for name in server.tools or ("",) if name not in listed]:
                names = ", ".join(map(self._line, listed)) or "none"
                wrong = f"there is no {missing[0]}" if missing[0] else "none is named"
                raise InputError(f"{server.place}.tools: {wrong}: the server offers {names}.")
            for name in server.tools:
                try:
                    pairs.append((self._tool(name, listed[name]), partial(self._answer, name)))
                except ValueError as error:
                    message = f"{name} cannot be called: {error}."
                    raise InputError(f"{server.place}.tools: {message}") from None
        except InputError:
            raise
        except Exception as error:  # noqa: BLE001 - a server may break in any way
            failure = self._failure(error)
            self.end()
            ended = re.match(r"(-?\d+) (.*)", self._ended)
            if ended and failure.reason == "network":
                last = self._line(ended[2])
                message = f"It ended with exit code {ended[1]}{f': {last}' if last else '.'}"
            else:
                message = self._redact(str(failure))
            raise InputError(f"{server.place}: {message}") from None
        return pairs

    async def close(self) -> None:
        """End the session; the next call begins another."""
        await asyncio.to_thread(self.end)

    def _tool(self, name: str, declared: mcp.Tool) -> Tool:
        """A tool as it is shown to a model; a `ValueError` where it cannot be called."""
        full_name = f"{self._server.place}_{re.sub('[^a-z0-9_]+', '_', name.lower())}"
        if not TOOL_NAME.fullmatch(full_name):
            raise ValueError(f"{full_name[:80]} is no tool's name")
        schema = json.loads(self._redact(json.dumps(declared.input_schema)))
        fields, needed = schema.get("properties", {}), schema.get("required", [])
        if not isinstance(fields, dict) or not isinstance(needed, list):
            raise ValueError("its parameters are no JSON schema")
        parameters = []
        for key, field in fields.items():
            if not PARAMETER_NAME.fullmatch(key):
                raise ValueError("a parameter's name has other characters than letters and digits")
            plain = plain_schema(field, schema)
            if key not in needed and "anyOf" in plain:
                # A null counts as a missing argument, so its type is left out.
                types = [type for type in plain.pop("anyOf") if type != {"type": "null"}]
                plain |= types[0] if len(types) == 1 else {"anyOf": types}
            described = field.get("description") if isinstance(field, dict) else ""
            about = self._line(described) or key
            parameters.append(Parameter(key, about, json.dumps(plain), key in needed))
        about = self._line(declared.description) or name
        return replace(self._common, name=full_name, about=about, parameters=tuple(parameters))

    def _line(self, text: object) -> str:
        """A text from the server in one line, cut and without secrets."""
        words = "".join(char if char.isprintable() else " " for char in str(text or ""))
        return one_line(self._redact(words))[:LONGEST_ABOUT]

    async def _answer(self, name: str, arguments: Mapping[str, Any]) -> str:
        """A call's reply, as `Service`."""
        try:
            portal, client = await asyncio.to_thread(self._session)
            self._wrong = None
            called = portal.start_task_soon(_call, client, name, dict(arguments))
            text: str = await asyncio.wrap_future(called)
        except Exception as error:  # noqa: BLE001 - a server may break in any way
            failure = self._failure(error)
            if failure.reason == "network":
                await self.close()
            raise failure from None
        most = self._common.limits.bytes
        if len(text.encode("utf-8", "replace")) > most:
            raise ToolError("size", f"Its answer is longer than {most:,} bytes.")
        return text

    def _failure(self, error: Exception) -> ToolError:
        """The error for a failed call, without the server's words."""
        if fault := self._wrong or (error if isinstance(error, ToolError) else None):
            return fault
        while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        match error:
            case mcp.MCPError() if error.code == REQUEST_TIMEOUT:
                return ToolError("time", "It gave no answer in time.")
            case mcp.MCPError() if error.code == CONNECTION_CLOSED:
                most = max(self._common.limits.bytes, LISTING)
                ended = f"It ended before it answered, or its answer has over {most:,} bytes."
                broke = "It broke the connection off before it answered."
                return ToolError("network", ended if self._server.command else broke)
            case mcp.MCPError():
                return ToolError("status", f"It refused the call, with error {error.code}.")
            case ValidationError():
                return ToolError("reply", "Its answer is not as the protocol says.")
            case RuntimeError() if str(error).startswith("Unsupported protocol version"):
                return ToolError("reply", "It speaks a version of the protocol that is not known.")
        return ToolError("network", "It broke off before it answered.")

    def _session(self) -> tuple[BlockingPortal, mcp.Client]:
        """The session, which is opened where there is none."""
        with self._lock:
            if self._open is None:
                # The SDK logs what a server says, which may hold a key.
                logging.getLogger("mcp").addHandler(logging.NullHandler())
                logging.getLogger("mcp").propagate = False
                with ExitStack() as stack:
                    portal = stack.enter_context(start_blocking_portal())
                    waits = max(STARTING, self._common.limits.seconds)
                    session = mcp.Client(self._transport(), read_timeout_seconds=waits, cache=None)
                    client = stack.enter_context(portal.wrap_async_context_manager(session))
                    self._open = stack.pop_all(), portal, client
                    self._wrong = None
            return self._open[1:]

    def end(self) -> None:
        """As `close`, without an event loop."""
        with self._lock:
            if self._open:
                stack, self._open = self._open[0], None
                with suppress(Exception):
                    stack.close()

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[Any]:
        """The streams of a program, or of calls over HTTP."""
        server, limits = self._server, self._common.limits
        most = max(limits.bytes, LISTING)
        if server.command:
            first = server.command[0]
            at = str(server.folder / first) if os.path.dirname(first) else first
            if not which(at, path=self._environment.get("PATH")):
                raise ToolError("network", f"There is no program {first[:80]}.")
            words = ["-I", "-S", "-c", RELAY, str(most), *server.command]
            program = StdioServerParameters(
                command=sys.executable, args=words, env=self._environment, cwd=server.folder
            )
            # The program's errors must not appear among Pearl's own output.
            with TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
                try:
                    async with stdio_client(program, errors) as streams:
                        yield streams
                finally:
                    errors.seek(0)
                    self._ended = errors.read(20_000)
            return
        async with open_session(server.origin, server.ca, limits, self._resolve) as session:
            note = partial(setattr, self, "_wrong")
            transport = OneOriginTransport(session, server.origin, most, note)
            headers = {**self._headers, "Accept-Encoding": "identity"}
            async with (
                httpx2.AsyncClient(
                    transport=transport, headers=headers, timeout=None, trust_env=False
                ) as sent,
                streamable_http_client(
                    server.url, http_client=sent, max_sse_event_size=most
                ) as streams,
            ):
                yield streams


async def _list_tools(client: mcp.Client) -> dict[str, mcp.Tool]:
    """The tools that a server offers, by name."""
    listed: dict[str, mcp.Tool] = {}
    cursor: str | None = None
    for _ in range(20):
        page = await client.list_tools(cursor=cursor)
        listed.update((tool.name, tool) for tool in page.tools)
        cursor = page.next_cursor
        if not cursor:
            break
    return listed


async def _call(client: mcp.Client, name: str, arguments: dict[str, Any]) -> str:
    """The text of a call's reply."""
    # `call_tool` would check the reply by the server's schema, which may take forever.
    params = mcp.types.CallToolRequestParams(name=name, arguments=arguments)
    request = mcp.types.CallToolRequest(params=params)
    result = await client.session.send_request(request, mcp.types.CallToolResult)
    if result.is_error:
        raise ToolError("status", "It answered that the call failed.")
    texts = []
    for block in result.content:
        match block:
            case mcp.types.TextContent():
                texts.append(block.text)
            case mcp.types.EmbeddedResource(resource=mcp.types.TextResourceContents() as resource):
                texts.append(resource.text)
    if not texts and result.structured_content is not None:
        texts.append(json.dumps(result.structured_content, ensure_ascii=False))
    if result.content and not texts:
        raise ToolError("reply", "It answered with something that is no text.")
    return "\n".join(texts).replace("\0", "\ufffd")


def plain_schema(schema: object, root: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of a value, with its references to parts of ``root`` (``#/…``) resolved.

    Raises:
        ValueError: it is no schema, refers to itself or to another place, is too large, or has a
            pattern that is no regular expression.
    """
    budget = LARGEST_SCHEMA

    def plain(node: object, path: tuple[str, ...]) -> Any:  # noqa: ANN401 - a schema
        nonlocal budget
        budget -= 1
        if budget < 0 or len(path) > 20:
            raise ValueError("a parameter's schema is too large")
        if isinstance(node, bool):
            return node
        if not isinstance(node, dict):
            raise ValueError("a parameter's schema is none")
        flat: dict[str, Any] = {}
        if (place := node.get("$ref")) is not None:
            if place in path or not isinstance(place, str) or not place.startswith("#/"):
                raise ValueError("a parameter's schema refers to itself, or to another place")
            target: Any = root
            for part in place[2:].split("/"):
                target = target.get(part) if isinstance(target, dict) else None
            flat = plain(target, (*path, place))
        flat |= {key: node[key] for key in _KEYWORDS if key in node}
        if "pattern" in node:
            try:
                regex.compile(str(node["pattern"]))
            except regex.error:
                raise ValueError("a parameter's pattern is no regular expression") from None
            flat["pattern"] = node["pattern"]
        # In a fixed order, as the schema's text is part of prompts, and so of their keys.
        for key in ("items", "additionalProperties"):
            if key in node:
                flat[key] = plain(node[key], path)
        for key in ("anyOf", "oneOf", "allOf"):
            if key in node:
                flat[key] = [plain(each, path) for each in node[key]]
        if "properties" in node:
            flat["properties"] = {
                key: plain(each, path) for key, each in node["properties"].items()
            }
        return flat

    try:
        result = plain(schema, ())
        result = {} if isinstance(result, bool) else result
        Draft202012Validator.check_schema(result)
    except (SchemaError, TypeError, AttributeError, RecursionError):
        raise ValueError("a parameter's schema is none") from None
    return result


# --- requests over a session of `pearl.tools.web` ---


@dataclass
class OneOriginTransport(httpx2.AsyncBaseTransport):
    """Carries requests to one origin and to no other.

    Args:
        session: a session of `open_session`.
        origin: the only origin that requests may go to.
        most: the most bytes of an answer.
        note: called with errors.
    """

    session: aiohttp.ClientSession
    origin: str
    most: int
    note: Callable[[ToolError], object]

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The service's answer to a request; 502 where there is none."""
        url = URL(str(request.url), encoded=True)
        elsewhere = ToolError("host", f"It is sent on elsewhere: only {self.origin} is declared.")
        try:
            if origin_of(url.scheme, url.raw_host or "", url.port or 0) != self.origin:
                raise elsewhere
            response = await self.session.request(
                request.method,
                url,
                data=await request.aread(),
                headers=request.headers.multi_items(),
                allow_redirects=False,
            )
            if response.headers.get("Content-Encoding", "identity") != "identity":
                response.close()
                raise ToolError("reply", "Its answer is packed, which it was not asked for.")
        except (ToolError, aiohttp.ClientError, OSError, ValueError) as error:
            self.note(unreached(error))
            return httpx2.Response(502, request=request)
        if response.status >= 400:
            # A GET asks for notifications, which a server need not support.
            if request.method == "POST":
                self.note(refusal(response.status))
        elif response.status >= 300:
            # Noted only: the SDK follows a redirect, which fails above if its origin is another.
            self.note(elsewhere)
        return httpx2.Response(
            response.status,
            headers=[*response.headers.items()],
            stream=_Body(response, self.most, self.note),
            request=request,
        )


@dataclass
class _Body(httpx2.AsyncByteStream):
    """The body of a response, up to its limit."""

    response: aiohttp.ClientResponse
    most: int
    note: Callable[[ToolError], object]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for piece in self.response.content.iter_any():
                size += len(piece)
                if size > self.most:
                    raise oversized(self.most)
                yield piece
        except (ToolError, aiohttp.ClientError, OSError) as error:
            self.note(unreached(error))
            raise httpx2.StreamError("cut off") from None

    async def aclose(self) -> None:
        self.response.close()
