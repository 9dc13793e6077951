"""The server: where it listens, under which names, and until when."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pearl.lang.source import InputError
from pearl.review.app import LOCAL, is_address, is_loopback, make_app
from pearl.review.pages import PAGES
from pearl.review.session import Desk

if TYPE_CHECKING:
    from starlette.types import ASGIApp

CONNECTIONS = 500
"""Connections at a time; further ones are told to come later."""


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


def application(desk: Desk, host: str, names: Sequence[str]) -> ASGIApp:
    """What answers, for a server on that address.

    Args:
        desk: what the review has.
        host: the address it listens on.
        names: further names under which it is reached.
    """
    known = {name.lower() for name in names} | {host.lower()} | LOCAL
    own = is_loopback(host)
    if not own:
        known |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    # An address in numbers cannot be another site's name that leads here.
    return make_app(desk, PAGES, frozenset(known), addresses=not own)


def serve(app: ASGIApp, taken: socket.socket) -> None:
    """Answer until somebody stops the program."""
    import uvicorn

    config = uvicorn.Config(
        app,
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
    uvicorn.Server(config).run(sockets=[taken])
