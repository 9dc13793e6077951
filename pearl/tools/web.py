"""Calls to a service over HTTP, which reach only the declared host, and the texts of replies."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import ssl
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, NoReturn
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from pearl.lang.text import page_encoding
from pearl.tools.endpoint import (
    HOLE,
    Http,
    Resolve,
    is_private_literal,
    is_public,
    one_form,
    origin_of,
    with_variables,
)
from pearl.tools.toolbox import ToolError, ToolLimits

_TEXTS = re.compile(r"text/|application/(?:json|xml|x-ndjson|jsonl|yaml|toml)$|.*\+(?:json|xml)$")
_PAGES = ("text/html", "application/xhtml+xml")
_UNKNOWN = ("", "application/octet-stream")

# The standard library's parser fails on some pages (an AssertionError at "<![<"), and takes the
# square of the time on others. Here each pattern ends at the next "<" or where it began.
_PAGE = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), place)
    for pattern, place in (
        # No character has so many digits, and Python refuses to count them.
        (r"&#0+(?=[0-9])", "&#"),
        (r"&#[0-9]{8,};?", "\ufffd"),
        (
            r"<!--.*?(?:-->|\Z)"
            r"|<(script|style|template|noscript|svg|iframe)\b[^<>]*>.*?(?:</\1[^<>]*>|\Z)",
            " ",
        ),
        (r"</t[dh]\b[^<>]*>", " "),
        (
            r"<(?:/?(?:p|div|section|article|header|footer|main|nav|aside|h[1-6]|ul|ol|dl|dt|dd"
            r"|table|tr|title|blockquote|pre|form|figure|figcaption)|br|hr|li)\b[^<>]*>",
            "\n",
        ),
        (r"<[a-z/!?][^<>]*>", ""),
    )
)
"""Patterns and their replacements: for bad numbers, hidden elements, cells, blocks, other tags."""

_SPACES = re.compile(r"[^\S\n]+")
_LINES = re.compile(r"\s*\n\s*")


def read_text(body: bytes, kind: str, charset: str | None) -> str:
    """The text of a reply; of a page the words, without tags and scripts.

    Args:
        body: the body, uncompressed.
        kind: its media type, in lower case; empty where it has none.
        charset: the encoding that it declares; None for none.

    Raises:
        ToolError: it is no text.
    """
    if kind not in _UNKNOWN and not _TEXTS.match(kind):
        raise ToolError("reply", "It answered with something that is no text.")
    text = body.decode(page_encoding(charset), "replace")
    if kind in _UNKNOWN and ("\0" in text or "\ufffd" in text):
        raise ToolError("reply", "It answered with something that is no text.")
    if kind in _PAGES:
        text = page_text(text)
    return text.replace("\0", "\ufffd")


def page_text(page: str) -> str:
    """The words of a page in HTML, one block a line; no page makes it fail."""
    for pattern, place in _PAGE:
        page = pattern.sub(place, page)
    return _LINES.sub("\n", _SPACES.sub(" ", unescape(page))).strip()


REDIRECTS = 3
"""The most redirects of a call."""

_PIECE = 1 << 16
_MOVED = (301, 302, 303, 307, 308)


class Web:
    """A service over HTTP.

    Args:
        http: the service, as declared.
        limits: its limits; the caller sets the timeout of a call.
        environment: the environment variables that it needs.
        resolve: gives the addresses of a host.
    """

    def __init__(
        self, http: Http, limits: ToolLimits, environment: Mapping[str, str], resolve: Resolve
    ) -> None:
        self._http = http
        self._limits = limits
        self._static = with_variables(http.static, environment)
        self._headers = with_variables(http.headers, environment)
        self._resolve = resolve
        self._sessions: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession] = {}

    async def answer(self, arguments: Mapping[str, Any]) -> str:
        """The reply's text, as `Service`."""
        data = {**self._static, **arguments}
        texts = {name: _text(data.pop(name)) for name in set(HOLE.findall(self._http.path))}
        for name, text in texts.items():
            # A server may decode the path, so that the value would lead to another.
            if not text or {".", ".."} & set(text.replace("\\", "/").split("/")):
                raise ToolError("input", f"{name} cannot stand in an address: give another.")
        path = HOLE.sub(lambda match: quote(texts[match[1]], safe=""), self._http.path)
        url, query, body = f"{self._http.origin}{path}", [self._http.query], None
        if self._http.method == "POST":
            body = json.dumps(data, ensure_ascii=False).encode()
        else:
            values = {
                name: [*map(_text, value)] if isinstance(value, list) else _text(value)
                for name, value in data.items()
            }
            query.append(urlencode(values, doseq=True, quote_via=quote))
        if any(query):
            url += f"?{'&'.join(filter(None, query))}"
        try:
            return await self._send(URL(url, encoded=True), body)
        except (aiohttp.ClientError, OSError) as error:
            raise unreached(error) from None
        except ValueError:
            # Such as a host that cannot be encoded.
            raise ToolError("network", "The call cannot be written as HTTP.") from None

    async def close(self) -> None:
        """Close the session of this event loop, and those of loops that have ended."""
        this = asyncio.get_running_loop()
        for loop in [loop for loop in self._sessions if loop is this or loop.is_closed()]:
            await self._sessions.pop(loop).close()

    async def _send(self, url: URL, body: bytes | None) -> str:
        """Send a call, and follow redirects within the declared origin."""
        loop, http = asyncio.get_running_loop(), self._http
        if loop not in self._sessions:
            session = open_session(http.origin, http.ca, self._limits, self._resolve)
            self._sessions[loop] = session
        for _ in range(REDIRECTS + 1):
            method = "GET" if body is None else "POST"
            sent = {"Content-Type": "application/json"} if body is not None else {}
            async with self._sessions[loop].request(
                method, url, data=body, headers={**sent, **self._headers}, allow_redirects=False
            ) as response:
                place = response.headers.get("Location")
                if response.status not in _MOVED or place is None:
                    return await self._read(response)
                if response.status not in (307, 308):
                    body = None
            try:
                url = url.join(URL(place))
                origin = origin_of(url.scheme, one_form(url.raw_host or ""), url.port or 0)
            except ValueError:
                raise ToolError(
                    "redirect", "It is sent on to something that is no address."
                ) from None
            if url.user is not None or url.password is not None:
                raise ToolError(
                    "redirect", "It is sent on with a name and password in the address."
                )
            if origin != http.origin:
                only = f"only {http.origin} is declared."
                raise ToolError("host", f"It is sent on to another host: {only}")
        raise ToolError("redirect", f"It is sent on more than {REDIRECTS} times.")

    async def _read(self, response: aiohttp.ClientResponse) -> str:
        status, most = response.status, self._limits.bytes
        if not 200 <= status < 300:
            raise refusal(status)
        too_long = oversized(most)
        if (response.content_length or 0) > most:
            raise too_long
        packing = response.headers.get("Content-Encoding", "").strip().lower()
        if packing not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise ToolError("reply", "Its answer is packed in a way that is not read.")
        unpacker = None if packing in ("", "identity") else _Unpacker()
        body = bytearray()
        received = 0
        async for piece in response.content.iter_chunked(_PIECE):
            received += len(piece)
            body += unpacker.read(piece, most + 1 - len(body)) if unpacker else piece
            if max(len(body), received) > most:
                raise too_long
        if unpacker and not unpacker.member.eof:
            raise ToolError("network", "It broke off in the middle of its answer.")
        kind = response.content_type if "Content-Type" in response.headers else ""
        return read_text(bytes(body), kind.lower(), response.charset)


def open_session(
    origin: str, ca: str, limits: ToolLimits, resolve: Resolve
) -> aiohttp.ClientSession:
    """A session that only connects to checked addresses, uses nothing of the environment (such as
    proxies), and keeps no cookies.

    Args:
        origin: scheme, host and port of what is called.
        ca: a file of certificates to trust in place of the system's; empty for the system's.
        limits: they say whether the host may be in a private network.
        resolve: gives the addresses of a host.

    Raises:
        ToolError: the host is a private address, and may not be.
    """
    if is_private_literal(urlsplit(origin).hostname or "") and not limits.private:
        # Checked here, as aiohttp does not call the resolver for an address.
        _private()
    # With True, aiohttp uses the system's authorities, which it has loaded already.
    trusted = ssl.create_default_context(cafile=ca) if ca else True
    resolver = _PublicResolver(resolve, limits.private)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=trusted, resolver=resolver, use_dns_cache=False),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={
            "Accept": "application/json, text/*;q=0.9, */*;q=0.1",
            "Accept-Encoding": "identity",
            "User-Agent": f"pearl/{version('pearl')}",
        },
        timeout=aiohttp.ClientTimeout(total=None),
        # A small compressed reply may be huge: `_Unpacker` stops at the limit.
        auto_decompress=False,
        trust_env=False,
    )


def unreached(error: Exception) -> ToolError:
    """The error for a connection that failed; a `ToolError` stays as it is."""
    if isinstance(error, ToolError):
        return error
    return ToolError("network", next(say for kinds, say in _FAILURES if isinstance(error, kinds)))


def oversized(most: int) -> ToolError:
    """The error for a reply that is longer than its limit, in bytes."""
    return ToolError("size", f"Its answer is longer than {most:,} bytes, so it was not read.")


def refusal(status: int) -> ToolError:
    """The error for an HTTP status, without the server's own words, which are not trusted."""
    registered = status in set(HTTPStatus)
    name = HTTPStatus(status).phrase if registered else "which HTTP does not know"
    return ToolError("status", f"It answered with status {status}, {name}.")


@dataclass(frozen=True)
class _PublicResolver(AbstractResolver):
    """Looks a host up for each connection, which then uses only the addresses that it checked."""

    addresses: Resolve
    private: bool

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        addresses = list(dict.fromkeys(await self.addresses(host, port)))
        if not self.private and not all(map(is_public, addresses)):
            _private()
        if not addresses:
            raise OSError(f"{host} has no address")
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                proto=0,
                flags=socket.AI_NUMERICHOST,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        """Do nothing, as nothing is open."""


class _Unpacker:
    """Uncompresses a body piece by piece, and never more than is asked for."""

    def __init__(self) -> None:
        self.member = zlib.decompressobj(zlib.MAX_WBITS | 32)

    def read(self, piece: bytes, most: int) -> bytes:
        unpacked = bytearray()
        try:
            while piece and len(unpacked) < most:
                if self.member.eof:
                    # A gzip body may have several members, with zeros after the last.
                    piece = piece.lstrip(b"\0")
                    if not piece:
                        break
                    self.member = zlib.decompressobj(zlib.MAX_WBITS | 32)
                unpacked += self.member.decompress(piece, most - len(unpacked))
                piece = self.member.unused_data
        except zlib.error:
            raise ToolError("reply", "Its answer is not packed as it says.") from None
        return bytes(unpacked)


def _text(value: Any) -> str:  # noqa: ANN401 - any JSON
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _private() -> NoReturn:
    raise ToolError(
        "address",
        "Its host is on this machine or in a private network: say private = true in its limits, "
        "where that is meant.",
    )


_FAILURES = (
    (
        (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError),
        "Its certificate cannot be verified: name your own authority's in ca.",
    ),
    (aiohttp.ClientConnectorDNSError, "Its host is not known: check the endpoint."),
    (
        aiohttp.ClientConnectorError,
        "It cannot be reached: check the endpoint, and that it is running.",
    ),
    (aiohttp.ClientResponseError, "It does not speak HTTP as it should."),
    (aiohttp.ClientPayloadError, "It broke off in the middle of its answer."),
    (Exception, "It broke the connection off."),
)
"""Classes of errors with their messages, subclasses first."""
