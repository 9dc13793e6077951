"""One POST and its answer, bounded in every way, over connections that are kept open."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pearl.llm.failures import connection_failure, misdirected
from pearl.llm.model import ModelError

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

    from pearl.llm.settings import Settings

CONNECT = 20.0
"""Seconds in which a connection must come about; an answer may take far longer."""

LARGEST = 32 << 20
"""Bytes of an answer beyond which it is not read."""

LARGEST_ERROR = 64 << 10
"""Bytes of an error that are read."""

ERROR_TIME = 5.0
"""Seconds for which the words of an error are waited for: its status says the most."""

WHOLE = 1 << 20
"""Bytes that are handed over at once; more would hold up all other calls."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What an endpoint sent.

    Args:
        status: HTTP's.
        headers: by name, in any case.
        body: as it came, or its beginning where it is an error.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport:
    """Sends to one address, with a session for each event loop that uses it.

    Args:
        url: of the endpoint.
        settings: who pays, and how long a call may take.
        path: what is asked there.
    """

    def __init__(
        self, url: str, settings: Settings, path: tuple[str, ...] = ("chat", "completions")
    ) -> None:
        self._url = url
        self._settings = settings
        self._path = path
        self._sessions: dict[asyncio.AbstractEventLoop, tuple[aiohttp.ClientSession, URL]] = {}

    async def post(self, body: bytes) -> Answer:
        """Send once, and read the answer.

        Args:
            body: JSON.

        Raises:
            ModelError: nothing came back, or more than is read.
        """
        import aiohttp

        try:
            session, url = await self._opened()
            data = body if len(body) < WHOLE else io.BytesIO(body)
            async with session.post(url, data=data, allow_redirects=False) as response:
                if response.status < 300:
                    read = await read_body(response)
                else:
                    read = await read_error(response, self._settings)
                return Answer(response.status, response.headers, read)
        except (aiohttp.ClientError, OSError) as error:
            raise connection_failure(error) from None
        except ValueError:
            # A host that cannot be written, or a password for it in ~/.netrc beside a key.
            raise misdirected() from None

    async def close(self) -> None:
        """Close what this event loop has open, and what loops that have ended left behind."""
        await self._close(asyncio.get_running_loop())

    async def _close(self, this: asyncio.AbstractEventLoop | None = None) -> None:
        for loop in [one for one in self._sessions if one is this or one.is_closed()]:
            await self._sessions.pop(loop)[0].close()

    async def _opened(self) -> tuple[aiohttp.ClientSession, URL]:
        loop = asyncio.get_running_loop()
        found = self._sessions.get(loop)
        if found is None:
            self._sessions[loop] = found = self._open()
            await self._close()
        return found

    def _open(self) -> tuple[aiohttp.ClientSession, URL]:
        import aiohttp
        from yarl import URL

        url = URL(self._url)
        url = url.joinpath(*self._path).with_query(url.query)
        session = aiohttp.ClientSession(
            # The engine limits how many calls are under way; nobody else does.
            connector=aiohttp.TCPConnector(limit=0),
            headers=headers(self._settings),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=min(self._settings.timeout, CONNECT)
            ),
            # aiohttp looks for a proxy at every call, in a thread: only where there is one.
            trust_env=proxied(url),
        )
        return session, url


def proxied(url: URL) -> bool:
    """Whether calls to an address go through a proxy.

    Args:
        url: of the endpoint.
    """
    from urllib.request import getproxies, proxy_bypass

    return url.scheme in getproxies() and not proxy_bypass(url.host or "")


async def read_body(response: aiohttp.ClientResponse) -> bytes:
    """An answer, as far as any answer may go.

    Args:
        response: one with a status of success.

    Raises:
        ModelError: it is longer than `LARGEST`.
    """
    if response.content_type == "text/event-stream":
        # It may never end; what it is, is known.
        return b"data:"
    pieces: list[bytes] = []
    size = response.content_length or 0
    if size <= LARGEST:
        size = 0
        async for piece in response.content.iter_any():
            pieces.append(piece)
            size += len(piece)
            if size > LARGEST:
                break
    if size > LARGEST:
        response.close()
        raise ModelError(
            "reply", f"The endpoint's answer is longer than {LARGEST >> 20} MB, so it was not read."
        )
    return b"".join(pieces)


async def read_error(response: aiohttp.ClientResponse, settings: Settings) -> bytes:
    """The beginning of an error, as far as it comes soon.

    Args:
        response: one with any other status.
        settings: how long a call may take.
    """
    import aiohttp

    pieces: list[bytes] = []
    seconds = min(ERROR_TIME, settings.timeout / 2)
    with suppress(TimeoutError, OSError, aiohttp.ClientError):
        async with asyncio.timeout(seconds):
            async for piece in response.content.iter_any():
                pieces.append(piece)
                if sum(map(len, pieces)) > LARGEST_ERROR:
                    response.close()
                    break
    return b"".join(pieces)[:LARGEST_ERROR]


def headers(settings: Settings) -> dict[str, str]:
    """What is sent with every call; the key is in it.

    Args:
        settings: who pays.
    """
    from importlib.metadata import version

    key = settings.api_key.get_secret_value()
    named = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        # Answers are short: packing them costs more than it saves.
        "Accept-Encoding": "identity",
        "User-Agent": f"pearl/{version('pearl')}",
        "Authorization": f"Bearer {key}" if key else "",
        "OpenAI-Organization": settings.organization,
        "OpenAI-Project": settings.project,
    }
    return {name: text for name, text in named.items() if text}
