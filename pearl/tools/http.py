"""Reading what ``tools.toml`` says of a service over HTTP."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, cast
from urllib.parse import parse_qsl, quote, urlsplit

from pearl.tools.addresses import host_problem, is_private_literal, one_form
from pearl.tools.base import Parameter
from pearl.tools.declared import HOLE, VARIABLE, Http, Scalar
from pearl.tools.fields import Fields

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
    told = fields.table("static")
    static = {name: _scalar(told, name) for name in told.data}
    headers = _headers(fields.table("headers"))
    for one in parameters:
        if one.name in static:
            fields.wrong("it is a parameter and static: leave one of the two out.", one.name)
    ca = _ca(fields, folder)
    return _endpoint(fields, cast(Literal["GET", "POST"], method), parameters, static, headers, ca)


def _endpoint(
    fields: Fields, method: Literal["GET", "POST"], parameters: Sequence[Parameter],
    static: dict[str, Scalar], headers: dict[str, str], ca: str,
) -> Http | None:  # fmt: skip
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
    scheme = cast(Literal["http", "https"], parts.scheme)
    for name, value in parse_qsl(parts.query):
        if _SECRET.search(name) and not _COUNT.search(name) and not VARIABLE.search(value):
            fields.wrong(
                f"{name} looks like a secret: give it in static, as ${{NAME}}.", "endpoint"
            )
    path = quote(parts.path or "/", safe=_LEFT)
    query = quote(parts.query, safe=_LEFT + "?")
    usual = {"http": 80, "https": 443}[scheme]
    http = Http(method, scheme, host, port or usual, path, query, static, headers, ca)
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
