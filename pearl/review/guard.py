"""What stands between the page and everybody else: names of hosts, headers, bodies, cookies."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from starlette.responses import PlainTextResponse

from pearl.review.people import form_token

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST = 512 * 1024
"""Bytes of a form."""

PATIENCE = 30.0
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


@dataclass(frozen=True)
class Guard:
    """Lets requests through that were meant for this server, and adds `HEADERS` to every answer.

    A page of another site may have its own name lead to this machine; what
    its browser sends then names that site as the host, and is refused.

    Args:
        app: what answers.
        names: names under which this server is reached, in lower case.
        addresses: whether any address, which nobody else can own, will do.
    """

    app: ASGIApp
    names: frozenset[str]
    addresses: bool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((name.encode(), value.encode()) for name, value in HEADERS
                      if name.encode() not in given),
                ]  # fmt: skip
            await send(message)

        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(hosts) == 1 and self._is_ours(hosts[0]):
            await self.app(scope, receive, guarded)
        else:
            refusal = PlainTextResponse(
                "This server is not reached under that name: start pearl review with --name.\n",
                421,
            )
            await refusal(scope, receive, guarded)

    def _is_ours(self, host: str) -> bool:
        name = _name(host)
        if name in self.names:
            return True
        return self.addresses and is_address(name)


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
    _check_origin(request)
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


def _check_origin(request: Request) -> None:
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise RefusedError(403, "This form comes from another site: use the page itself.")
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise RefusedError(403, "This form comes from another site: use the page itself.")


def _name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
