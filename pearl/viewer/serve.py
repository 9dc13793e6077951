"""Serves the pages of `pearl view` and `pearl review`: socket, allowed hosts, headers, cookies."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import hmac
import ipaddress
import math
import re
import socket
from collections.abc import Sequence
from contextlib import suppress
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from pearl.lang.errors import InputError
from pearl.store.database import DisplacedError, StoreError

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONNECTIONS = 500
"""The most connections at the same time; further ones are refused."""

HURRY = 5.0
"""Seconds in which a request's head must arrive, so that idle clients take no connections."""

BUFFER = 32 << 10
"""The bytes that the system holds for a client: one that reads less in `STANDSTILL` is hung up on.
"""

STANDSTILL = 10.0
"""Seconds in which a client must read something of what waits to be sent to it."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""What a page may load and do. ``connect-src`` is for htmx, which asks this server only."""

HEADERS = (
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    # With "no-referrer" a browser would hide the origin of a form that our own page sends.
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
)

KINDS = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}
"""Media types by file ending."""

_HOST = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?")

LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})


class RefusedError(Exception):
    """A request that is refused; the message tells the user why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


TROUBLES: tuple[type[Exception], ...] = (RefusedError, InputError, HTTPException, Exception)
"""The exceptions that become a page, by `describe_error`."""


def describe_error(error: Exception) -> tuple[int, str]:
    """The status and the text of a page about an error, without internal details."""
    match error:
        case RefusedError():
            return error.status, str(error)
        case DisplacedError():
            return 503, f"{error} Nothing is read from it or saved in it: start the server again."
        case StoreError():
            return 503, str(error)
        case InputError():
            return 422, str(error)
        case HTTPException():
            return error.status_code, "There is no such page."
    return 500, "Something went wrong here. What was saved before is safe."


def is_address(name: str) -> bool:
    """Whether a host is given as an IP address, as 192.0.2.7."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)


def check_host_name(name: str) -> None:
    """Make sure that a link can begin with a name.

    Raises:
        InputError: it is no host's.
    """
    if not is_address(name) and not _HOST.fullmatch(name):
        raise InputError(
            f"{name} is no host's name: give --name without http:// and port, as "
            "reviews.example.org."
        )


def static_files(*named: tuple[str, str]) -> tuple[Route, dict[str, str]]:
    """A route that serves the files that pages load, and the files' addresses by name.

    Args:
        named: pairs of a package and a file in its folder ``static``; only these are served.
    """
    contents = {name: (files(package) / "static" / name).read_bytes() for package, name in named}

    async def file(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in contents:
            raise HTTPException(404)
        # An address includes the file's hash, so it may be cached forever.
        headers = {"cache-control": "private, max-age=31536000, immutable"}
        kind = KINDS[name.rpartition(".")[2]]
        return Response(contents[name], headers=headers, media_type=kind)

    addresses = {
        name: f"/static/{name}?{hashlib.sha256(content).hexdigest()[:12]}"
        for name, content in contents.items()
    }
    return Route("/static/{name}", file, methods=["GET"]), addresses


def is_secret(sent: str, secret: str) -> bool:
    """Whether a browser sent a secret, compared in constant time."""
    return hmac.compare_digest(sent.encode("utf-8", "replace"), secret.encode())


def set_cookie(response: Response, request: Request, name: str, key: str, life: float) -> None:
    """Set a browser's cookie, which no script can read and no other site's page can send.

    Browsers send it to every port of this host: a server at another port sees it.
    """
    # Behind a proxy with https, the cookie must be sent by https only.
    secure = request.headers.get("origin", "").startswith("https://")
    response.set_cookie(
        name, key, max_age=int(life), path="/", httponly=True, samesite="strict", secure=secure
    )


def listen(host: str, port: int) -> socket.socket:
    """Listen on a port.

    Args:
        host: an address of this machine.
        port: the port; 0 for any free one.

    Raises:
        InputError: it cannot be listened on.
    """
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = infos[0]
        sock = socket.socket(family, kind, protocol)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        # Clients that connect before the server has started wait instead of being refused.
        sock.listen()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InputError(
                f"Port {port} is in use: name another with --port, or 0 for a free one."
            ) from None
        raise InputError(
            f"{host}, port {port}, cannot be listened on ({error.strerror}): name another with "
            "--host and --port."
        ) from None
    return sock


def address_of(sock: socket.socket, host: str, names: Sequence[str]) -> str:
    """The beginning of links to the server.

    Args:
        sock: the socket.
        host: the host, as the user gave it.
        names: further names of the server.
    """
    port = int(sock.getsockname()[1])
    shown = names[0] if names else host
    if is_address(shown) and ":" in shown:
        shown = f"[{shown}]"
    return f"http://{shown}:{port}"


def with_guard(app: ASGIApp, host: str, names: Sequence[str]) -> ASGIApp:
    """Wrap an application: requests for other hosts are refused, and answers get `HEADERS`.

    This prevents DNS rebinding: another site may let its own name point to
    this machine, but a browser then sends that name as the host.

    Args:
        app: the application.
        host: the address it listens on.
        names: further names of the server.
    """
    allowed = {name.lower() for name in names} | {host.lower()} | LOCAL
    own = is_loopback(host)
    if not own:
        allowed |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for header, value in HEADERS:
                    headers.setdefault(header, value)
            await send(message)

        hosts = Headers(scope=scope).getlist("host")
        name = ""
        with suppress(ValueError):
            name = (urlsplit(f"//{hosts[0]}").hostname or "").lower() if len(hosts) == 1 else ""
        # An IP address is no name that another site could let point here.
        if name in allowed or (not own and is_address(name)):
            await app(scope, receive, with_headers)
        else:
            refusal = PlainTextResponse(
                "This server is not reached under that name: pearl review has --name for it.\n", 421
            )
            await refusal(scope, receive, with_headers)

    return guard


def server_config(app: ASGIApp) -> uvicorn.Config:
    """The settings of uvicorn with which `serve` answers."""
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Hurried(H11Protocol):
        """Closes a connection if no complete head of a request arrives in time, or if its client
        stops reading what is sent."""

        due: asyncio.TimerHandle | None = None
        reading: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            # With a large buffer, the system seldom tells that a slow client has read something.
            transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER
            )
            # Writing pauses as soon as anything waits: a transport that closes waits for it, too.
            transport.set_write_buffer_limits(high=0)
            self.due = self.loop.call_later(HURRY, transport.close)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            cycle: Any = self.cycle  # None before the first request
            if cycle is not None and not cycle.response_complete:
                self.relax()
            elif self.due is None:
                self.due = self.loop.call_later(HURRY, self.transport.close)

        def on_response_complete(self) -> None:
            self.relax()
            super().on_response_complete()
            if self.conn.trailing_data[0]:
                self.due = self.loop.call_later(HURRY, self.transport.close)

        def pause_writing(self) -> None:
            super().pause_writing()
            self.await_reader(math.inf)

        def await_reader(self, before: float) -> None:
            """Hang up if as many bytes wait to be read as before; else look again later."""
            waiting = self.transport.get_write_buffer_size()
            if waiting < before:
                self.reading = self.loop.call_later(STANDSTILL, self.await_reader, waiting)
            else:
                self.transport.abort()

        def resume_writing(self) -> None:
            super().resume_writing()
            if self.reading is not None:
                self.reading.cancel()
                self.reading = None

        def connection_lost(self, exc: Exception | None) -> None:
            self.relax()
            self.resume_writing()
            super().connection_lost(exc)

        def relax(self) -> None:
            """Stop the timer, as no request is expected."""
            if self.due is not None:
                self.due.cancel()
                self.due = None

    return uvicorn.Config(
        app,
        http=Hurried,
        # By default a variable gives the number, and it may be none.
        workers=1,
        # Addresses contain tokens, which must not be logged.
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="off",
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=5,
    )


def serve(app: ASGIApp, sock: socket.socket) -> None:
    """Answer until somebody stops the program."""
    import uvicorn

    uvicorn.Server(server_config(app)).run(sockets=[sock])
