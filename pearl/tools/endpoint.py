"""Reads the tables of ``tools.toml`` that declare services, and checks the addresses of hosts.

A table is read field by field, and mistakes are noted with their places. A secret is given by the
name of an environment variable, and never stands in the file.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit

from pearl.lang.text import SECRET_NAME, one_line
from pearl.tools.toolbox import Parameter

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""An environment variable in a text of the file."""

HOLE = re.compile(r"\{([^{}]*)\}")
"""A parameter in an endpoint's path."""

USUAL_PORTS = {"http": 80, "https": 443}

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OURS = ("host", "content-length", "transfer-encoding", "connection", "accept-encoding")
"""Headers that a file may not set: they say where a call is sent and how it is read."""

_COUNT = re.compile("tokens", re.IGNORECASE)
"""A part of the name of a number that is no secret (``max_tokens``)."""

_LEFT = "/:@!$&'()*+,;=-._~%{}"
"""Characters of a path that stay as they are."""


@dataclass(frozen=True, slots=True)
class TomlTable:
    """A table of the file, and the list in which its mistakes are noted.

    Args:
        place: where it stands, as ``weather.limits``.
        data: its keys and values.
        mistakes: the mistakes of the file so far, one line each.
    """

    place: str
    data: dict[str, Any]
    mistakes: list[str]

    def wrong(self, message: str, key: str = "") -> None:
        """Note a mistake of this table, or of one of its fields."""
        place = f"{self.place}.{key}" if key else self.place
        self.mistakes.append(one_line(f"{place}: {message}"))

    def only(self, *fields: str) -> None:
        """Note every field but these as a mistake; a misspelt one is then read under its name."""
        for key in [key for key in self.data if key not in fields]:
            if close := get_close_matches(key, fields, 1):
                self._take(key, close[0])
            else:
                self.wrong(f"there is no such field: use {', '.join(fields)}.", key)

    def nearly(self, field: str, likeness: float) -> None:
        """Note a misspelt name of a field that decides which others there may be; ``likeness``,
        from 0 to 1, is how similar it must be."""
        if field not in self.data:
            for key in get_close_matches(field, self.data, 1, likeness):
                self._take(key, field)

    def _take(self, key: str, field: str) -> None:
        self.wrong(f"there is no such field: do you mean {field}?", key)
        self.data.setdefault(field, self.data.pop(key))

    def value(
        self,
        key: str,
        default: Any,  # noqa: ANN401 - any TOML
        form: str,
        fits: Callable[[Any], object],
        *others: type,
    ) -> Any:  # noqa: ANN401
        """A field's value; the default where it is not there, or does not fit, which is noted."""
        value = self.data.get(key, default)
        if type(value) in (type(default), *others) and fits(value):
            return value
        self.wrong(f"{form}.", key)
        return default

    def text(self, key: str, default: str = "") -> str:
        """A field that is a text in one line, and not empty."""
        is_line = lambda text: text.strip() and text.isprintable()  # noqa: E731
        return str(self.value(key, default, "give a text, in one line", is_line)).strip()

    def choice(self, key: str, *words: str) -> str:
        """A field that is one of these words; the first where it is not there."""
        close = get_close_matches(str(self.data.get(key)), words, 1)
        form = f"use {' or '.join(words)}{f'. Closest: {close[0]}' if close else ''}"
        return str(self.value(key, words[0], form, words.__contains__))

    def number(self, key: str, default: float, most: float) -> Any:  # noqa: ANN401
        """A field that is a number above 0; a whole one if the default is."""
        whole = "whole " if isinstance(default, int) else ""
        form = f"give a {whole}number above 0, and up to {most:,}"
        return self.value(key, default, form, lambda value: 0 < value <= most, int)

    def flag(self, key: str, *, default: bool) -> bool:
        """A field that is true or false."""
        return bool(self.value(key, default, "give true or false", lambda _: True))

    def table(self, key: str) -> TomlTable:
        """A table in this one; empty where it is not there."""
        place = f"{self.place}.{key}"
        data = self.value(key, {}, f"give a table, as [{place}]", lambda _: True)
        return TomlTable(place, data, self.mistakes)


@dataclass(frozen=True, slots=True)
class Http:
    """A service over HTTP.

    Args:
        method: GET sends arguments in the address, POST as a JSON object.
        origin: scheme, host and port: the only place that is ever connected to.
        path: the path, with the names of parameters in braces.
        query: the query that every call has.
        static: texts, numbers and flags that every call has, by name; texts may have variables.
        headers: the headers that every call has; they may have variables.
        ca: a file of certificates to trust in place of the system's; empty for the system's.
    """

    method: str
    origin: str
    path: str
    query: str
    static: Mapping[str, Any]
    headers: Mapping[str, str]
    ca: str


@dataclass(frozen=True, slots=True)
class McpServer:
    """An MCP server, as a file declares it.

    Args:
        place: the table's name, with which the names of its tools begin.
        tools: the names of the tools that may be called.
        command: the words that start it in ``folder``; empty for a server over HTTP.
        environment: the program's environment variables beside PATH, HOME and the like.
        folder: the folder of the file.
        url, origin: where it is called over HTTP; empty for a program.
        headers: of each call; these texts and those of ``environment`` may have variables.
        ca: a file of certificates to trust in place of the system's; empty for the system's.
    """

    place: str
    tools: tuple[str, ...]
    command: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    url: str
    origin: str
    headers: Mapping[str, str]
    ca: str


def origin_of(scheme: str, host: str, port: int) -> str:
    """An origin in its normal form, without a usual port."""
    name = f"[{host}]" if ":" in host else host
    return f"{scheme}://{name}{'' if USUAL_PORTS.get(scheme) == port else f':{port}'}"


def read_http(table: TomlTable, parameters: tuple[Parameter, ...], folder: Path) -> Http | None:
    """The HTTP service that a tool's table declares; None where its endpoint cannot be used."""
    method = table.choice("method", "GET", "POST")
    static = table.table("static")
    for name, value in static.data.items():
        if not isinstance(value, str | int | float):
            static.wrong("give a text, a number, true or false.", name)
        else:
            _check_value(static, name, value)
    headers, ca = read_headers(table), read_authorities(table, folder)
    for parameter in parameters:
        if parameter.name in static.data:
            message = "it is a parameter and static: leave one of the two out."
            table.wrong(message, parameter.name)
    if not (address := read_address(table, "endpoint")):
        return None
    parts, origin = address
    wrong = partial(table.wrong, key="endpoint")
    path, query = quote(parts.path or "/", safe=_LEFT), quote(parts.query, safe=_LEFT + "?")
    by_name = {parameter.name: parameter for parameter in parameters}
    for name in HOLE.findall(path):
        filler = by_name.get(name)
        if filler is None and name not in static.data:
            wrong(f"{{{name}}} is no parameter and not static: declare it.")
        elif filler and (not filler.required or json.loads(filler.schema)["type"] == "array"):
            wrong(f"{{{name}}} is to be required, and no array.")
    if {"{", "}"} & set(HOLE.sub("", path) + query):
        wrong("braces stand around a parameter's name, in the path only.")
    return Http(method, origin, path, query, static.data, headers, ca)


def read_server(table: TomlTable, folder: Path) -> McpServer | None:
    """The MCP server that a table declares; None where its address cannot be used."""
    table.nearly("url", 0.6)
    over_http = "url" in table.data
    own = ("url", "headers", "ca") if over_http else ("command", "environment")
    table.only("kind", "limits", "tools", *own)

    def texts(value: list[object]) -> bool:
        return all(isinstance(text, str) and text for text in value)

    named = 'give the names of those that may be called, as ["read"]'
    tools: list[str] = table.value("tools", [], named, texts)
    if not over_http:
        words = 'give the words that start it, as ["uvx", "x"], or a url'
        command = table.value("command", [], words, lambda value: value and texts(value))
        environment = read_headers(table, "environment")
        return McpServer(table.place, (*tools,), (*command,), environment, folder, "", "", {}, "")
    headers, ca = read_headers(table), read_authorities(table, folder)
    if not (address := read_address(table, "url")):
        return None
    parts, origin = address
    url = f"{origin}{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    return McpServer(table.place, (*tools,), (), {}, folder, url, origin, headers, ca)


def read_address(table: TomlTable, key: str) -> tuple[SplitResult, str] | None:
    """The parts of a field's address and its origin; None where it cannot be called."""
    if not (text := table.text(key)):
        return None
    wrong = partial(table.wrong, key=key)
    try:
        parts = urlsplit(text)
        problem = _problem(text, parts)
    except ValueError:
        problem = "that is no address: write it as https://host/path"
    if problem:
        wrong(f"{problem}.")
        return None
    host = one_form(parts.hostname or "")
    if is_private_literal(host) and table.table("limits").data.get("private") is not True:
        wrong(
            f"{host} is on this machine or in a private network: say private = true in "
            f"[{table.place}.limits], where that is meant."
        )
    for name, value in parse_qsl(parts.query):
        if SECRET_NAME.search(name) and not _COUNT.search(name) and not VARIABLE.search(value):
            wrong(f"{name} looks like a secret: give it in static, as ${{NAME}}.")
    return parts, origin_of(parts.scheme, host, parts.port or USUAL_PORTS[parts.scheme])


def read_headers(table: TomlTable, key: str = "headers") -> Mapping[str, str]:
    """A table's texts by name: headers, or the environment variables of a program."""
    headers = table.table(key)
    for name, value in headers.data.items():
        if not _HEADER.fullmatch(name) or name.lower() in _OURS:
            headers.wrong("such a name cannot be set: leave it out.", name)
        elif not isinstance(value, str) or not value.isprintable():
            headers.wrong("give a text, in one line.", name)
        else:
            _check_value(headers, name, value)
    return headers.data


def read_authorities(table: TomlTable, folder: Path) -> str:
    """The path of a table's file of certificates; empty where it names none."""
    ca = str(folder / table.text("ca")) if "ca" in table.data else ""
    try:
        # What comes out of a pipe or a device may have no end.
        if ca and not Path(ca).is_file():
            raise ValueError(ca)
        ca and ssl.create_default_context(cafile=ca)
    except (OSError, ValueError):
        # An SSLError, for a damaged file, is an OSError too.
        table.wrong("that is no file of certificates: give one in PEM.", "ca")
    return ca


def with_variables(values: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Values with their variables replaced by the values in the environment."""
    return {
        name: VARIABLE.sub(lambda match: environment[match[1]].strip(), value)
        if isinstance(value, str)
        else value
        for name, value in values.items()
    }


def _problem(text: str, parts: SplitResult) -> str:
    """Why an address cannot be an endpoint; empty where it can. A `ValueError` for a bad port."""
    not_called = "only http and https are called: write it as https://host/path"
    userinfo = "a name and password may not stand in it: use a header, with a variable"
    host = parts.hostname or ""
    problems = (
        (VARIABLE.search(text), "a variable may stand in static and in headers only"),
        (parts.scheme not in USUAL_PORTS, not_called),
        ("@" in parts.netloc, userinfo),
        ("#" in text, "leave out what stands from # on: it is never sent"),
        (not host, "it has no host: write it as https://host/path"),
        (problem := host_problem(host), problem),
        (parts.port == 0 or parts.netloc.endswith(":"), "there is no such port"),
    )
    return next((message for is_so, message in problems if is_so), "")


def _check_value(table: TomlTable, name: str, value: str | float) -> None:
    """Note a mistake if a value is a secret, which all who see the file could read."""
    if isinstance(value, str):
        if "${" in VARIABLE.sub("", value):
            table.wrong("write a variable as ${NAME}, of letters, digits and _.", name)
        literal = bool(value.strip()) and not VARIABLE.search(value)
    else:
        literal = not isinstance(value, bool) and not _COUNT.search(name)
    if literal and SECRET_NAME.search(name):
        table.wrong("that looks like a secret: write it as ${NAME}, and set NAME.", name)


# --- the addresses of hosts ---

Address: TypeAlias = IPv4Address | IPv6Address

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Gives the addresses of a host, from its name and a port. Raises `OSError` where it has none."""

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?={_LABEL})(?:{_LABEL}\.)*{_LABEL}\.?", re.IGNORECASE)
_NUMBER = re.compile(r"(?:\d+|0x[0-9a-f]*)\.?", re.IGNORECASE)
_UNICAST = IPv6Network("2000::/3")
_DOCUMENTATION = IPv6Network("3fff::/20")
"""For examples (RFC 9637); Python knows it from 3.13 on."""

_ASSIGNMENTS = IPv4Network("192.0.0.0/24")
"""Addresses of protocols; versions of Python differ in which of them count as global."""

_NAT64 = IPv6Network("64:ff9b::/96")
"""Addresses that end in the IPv4 address that is reached through them."""


async def look_up(host: str, port: int) -> Sequence[str]:
    """The addresses of a host, as the system knows them."""
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in infos]


def host_problem(host: str) -> str:
    """What is wrong with a host as it is written, without brackets and port; empty for nothing.

    An address must be in its normal form: the system reads 2130706433, 0x7f.1 and 127.1 as
    127.0.0.1, but a comparison of texts does not.
    """
    if "%" not in host and _literal(host) is not None:
        return ""
    if ":" in host or "%" in host:
        return "that is no address: write IPv6 as [2001:db8::1], without a zone"
    if not host.isascii():
        return "write the host in its ASCII form, as xn--mnchen-3ya.example"
    if _NUMBER.fullmatch(host.removesuffix(".").rpartition(".")[2]):
        return "write an address as four decimal numbers, as 192.0.2.1"
    return "" if len(host) <= 253 and _NAME.fullmatch(host) else "that is no host's name"


def one_form(host: str) -> str:
    """A valid host in its normal form: a name in lower case without a final dot, or an address."""
    literal = _literal(host)
    return host.rstrip(".").lower() if literal is None else str(literal)


def is_private_literal(host: str) -> bool:
    """Whether a host is an address of this machine or of a private network."""
    return _literal(host) is not None and not is_public(host)


def is_public(address: str) -> bool:
    """Whether an address, as a resolver gives it, is one of the public internet.

    These are not: loopback, private, shared, link-local (where clouds serve their keys), multicast,
    reserved and unspecified addresses, texts that are no address, and IPv6 addresses that stand for
    such an IPv4 address (mapped, compatible, 6to4, Teredo, NAT64).
    """
    literal = _literal(address)
    return literal is not None and all(
        part.is_global
        and not part.is_multicast
        and (
            part not in _ASSIGNMENTS
            if isinstance(part, IPv4Address)
            else part in _UNICAST and part not in _DOCUMENTATION
        )
        for part in _reached(literal)
    )


def _reached(address: Address) -> Iterator[Address]:
    """An address, or the one that it stands for; both where one is reached through the other."""
    if isinstance(address, IPv4Address):
        yield address
    elif address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    elif address in _NAT64:
        yield IPv4Address(int(address) & 0xFFFFFFFF)
    else:
        yield address
        yield from filter(None, (address.sixtofour, *(address.teredo or ())))


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
