"""What stands between the pages and everybody else: hosts, headers, forms, cookies, the socket."""

from __future__ import annotations

import asyncio
import errno
import hmac
import ipaddress
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from starlette.responses import PlainTextResponse, Response

from pearl.lang.source import InputError
from pearl.review.people import form_token

if TYPE_CHECKING:
    import uvicorn
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONNECTIONS = 500
"""Connections at a time; further ones are told to come later."""

LARGEST = 512 * 1024
"""Bytes of a form."""

HURRY = 5.0
"""Seconds in which a request's head must have come: who sends none takes a connection."""

PATIENCE = 10.0
"""Seconds in which a form must have come."""

FIELDS = 100
"""Fields of a form."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""What a page may load and do. ``connect-src`` is for htmx, which asks this server only."""

HEADERS = (
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    # With "no-referrer" a browser would not say either that a form comes from our own page.
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
)

LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})


class RefusedError(Exception):
    """A request that is not answered as it asks; the message says why, to a person."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def is_address(name: str) -> bool:
    """Whether a host's name is a number, as 192.0.2.7."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)


async def read_form(request: Request) -> dict[str, list[str]]:
    """The fields of a form that a page of ours sent.

    Raises:
        RefusedError: it is too large, no form, or another page's.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise RefusedError(415, "Send a form, as the page does.")
    origin = request.headers.get("origin")
    foreign = origin is not None and urlsplit(origin).netloc != request.headers.get("host")
    site = request.headers.get("sec-fetch-site", "same-origin")
    if foreign or site not in ("same-origin", "none"):
        raise RefusedError(403, "This form comes from another site: use the page itself.")
    body = bytearray()
    try:
        async with asyncio.timeout(PATIENCE):
            async for part in request.stream():
                body += part
                if len(body) > LARGEST:
                    raise RefusedError(413, "That is too long: shorten it.")
    except TimeoutError:
        raise RefusedError(408, "The form did not come in time: send it again.") from None
    try:
        form = parse_qs(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS, errors="replace"
        )
    except ValueError:
        raise RefusedError(400, "The form cannot be read: send it from the page.") from None
    return form


def check_form(form: Mapping[str, list[str]], key: str) -> None:
    """Make sure that a form comes from a page of ours in this very browser.

    Args:
        form: its fields.
        key: what the browser's cookie holds; empty where it has none.

    Raises:
        RefusedError: it does not.
    """
    sent = (form.get("csrf") or [""])[0]
    wanted = form_token(key)
    if not key or not hmac.compare_digest(sent.encode("utf-8", "replace"), wanted.encode()):
        raise RefusedError(403, "This form is too old or not ours: go back, load the page again.")


def set_cookie(response: Response, request: Request, name: str, key: str, life: float) -> None:
    """Hand a browser its secret: no script reads it, and no other site's page has it sent."""
    # Behind a server that speaks https for us, the secret is to travel by https only.
    secure = request.headers.get("origin", "").startswith("https://")
    response.set_cookie(
        name, key, max_age=int(life), path="/", httponly=True, samesite="strict", secure=secure
    )


def listen(host: str, port: int) -> socket.socket:
    """Take a port.

    Args:
        host: an address of this machine.
        port: 0 for any that is free.

    Raises:
        InputError: it cannot be had.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        taken = socket.socket(family, kind, protocol)
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
        # Whoever comes before the server has started waits, and is not turned away.
        taken.listen()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InputError(
                f"Port {port} is in use: name another with --port, or 0 for a free one."
            ) from None
        raise InputError(
            f"{host}, port {port}, cannot be listened on ({error.strerror}): name another with "
            "--host and --port."
        ) from None
    return taken


def address_of(taken: socket.socket, host: str, names: Sequence[str]) -> str:
    """What links begin with.

    Args:
        taken: the socket.
        host: as it was given.
        names: further names of the server.
    """
    port = int(taken.getsockname()[1])
    shown = names[0] if names else host
    if is_address(shown) and ":" in shown:
        shown = f"[{shown}]"
    return f"http://{shown}:{port}"


def guarded(app: ASGIApp, host: str, names: Sequence[str]) -> ASGIApp:
    """Lets requests through that were meant for this server, and adds `HEADERS` to every answer.

    A page of another site may have its own name lead to this machine; what
    its browser sends then names that site as the host, and is refused.

    Args:
        app: what answers.
        host: the address it listens on.
        names: further names under which it is reached.
    """
    known = {name.lower() for name in names} | {host.lower()} | LOCAL
    own = is_loopback(host)
    if not own:
        known |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                ours = {name.encode(): value.encode() for name, value in HEADERS}
                given = {name.lower(): value for name, value in message["headers"]}
                added = [(name, value) for name, value in ours.items() if name not in given]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        name = ""
        with suppress(ValueError):
            name = (urlsplit(f"//{hosts[0]}").hostname or "").lower() if len(hosts) == 1 else ""
        # An address in numbers cannot be another site's name that leads here.
        if name in known or (not own and is_address(name)):
            await app(scope, receive, with_headers)
        else:
            refusal = PlainTextResponse(
                "This server is not reached under that name: start pearl review with --name.\n",
                421,
            )
            await refusal(scope, receive, with_headers)

    return guard


def configured(app: ASGIApp) -> uvicorn.Config:
    """How `serve` answers."""
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Hurried(H11Protocol):
        """Closes a connection on which no whole head of a request comes in time."""

        due: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
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

        def connection_lost(self, exc: Exception | None) -> None:
            self.relax()
            super().connection_lost(exc)

        def relax(self) -> None:
            """There is nothing to wait for."""
            if self.due is not None:
                self.due.cancel()
                self.due = None

    return uvicorn.Config(
        app,
        http=Hurried,
        # Addresses hold tokens, and are not written down.
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


def serve(app: ASGIApp, taken: socket.socket) -> None:
    """Answer until somebody stops the program."""
    import uvicorn

    uvicorn.Server(configured(app)).run(sockets=[taken])
