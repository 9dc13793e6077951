"""Keeps tools in bounds: which addresses they may be at."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, given its name and a port. Raises `OSError` where it has none."""

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?={_LABEL})(?:{_LABEL}\.)*{_LABEL}\.?", re.IGNORECASE)
_NUMBER = re.compile(r"(?:\d+|0x[0-9a-f]*)\.?", re.IGNORECASE)
_UNICAST = IPv6Network("2000::/3")
_DOCUMENTATION = IPv6Network("3fff::/20")
"""For examples (RFC 9637); Python knows it from 3.13 on."""

_ASSIGNMENTS = IPv4Network("192.0.0.0/24")
"""Protocols' own; Python's versions differ over which of them are global."""

_NAT64 = IPv6Network("64:ff9b::/96")
"""Whose addresses end in one of IPv4 that is reached through them."""


async def look_up(host: str, port: int) -> Sequence[str]:
    """The addresses of a host, as the system knows them."""
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in infos]


def host_problem(host: str) -> str:
    """What is wrong with a host as it is written; empty for nothing.

    An address has one form only. The system reads 2130706433, 0x7f.1 and 127.1 as
    127.0.0.1, and whoever compares texts does not.

    Args:
        host: without brackets and port.
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
    """A right host without the dot that may end it, an address in its shortest form."""
    literal = _literal(host)
    return host.rstrip(".").lower() if literal is None else str(literal)


def is_private_literal(host: str) -> bool:
    """Whether a host is written as an address, of this machine or of a private network."""
    literal = _literal(host)
    return literal is not None and not _public(literal)


def is_public(address: str) -> bool:
    """Whether an address is one of the public internet.

    Not so: loopback, private, shared, link-local (where clouds keep their keys), multicast,
    reserved and unspecified ones, whatever is no address, and addresses of IPv6 that stand for
    one of these of IPv4 (mapped, compatible, 6to4, Teredo, NAT64).

    Args:
        address: as a resolver gives it.
    """
    literal = _literal(address)
    return literal is not None and _public(literal)


def _public(address: Address) -> bool:
    return all(
        part.is_global
        and not part.is_multicast
        and (
            part not in _ASSIGNMENTS
            if isinstance(part, IPv4Address)
            else part in _UNICAST and part not in _DOCUMENTATION
        )
        for part in _reached(address)
    )


def _reached(address: Address) -> Iterator[Address]:
    """An address, or the one that it stands for; both where it is reached by way of the other."""
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
