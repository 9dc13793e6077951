"""Sends a request to an endpoint, and gives its answer or a one-line error without the key.

Everything is bounded: the time to connect, the bytes that are read, and the
words of an error. No redirect is followed and nothing is retried.
"""

from __future__ import annotations

import asyncio
import io
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from pearl.models.base import ModelError
from pearl.models.endpoint_replies import failure, number, read_complaint

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

    from pearl.models.settings import Settings

T = TypeVar("T")

CONNECT = 20.0
"""The most seconds to connect; an answer may take far longer."""

LARGEST = 16 << 20
"""The most bytes of an answer: a reply of a million characters may take 12 MB. All other calls wait
while JSON is read, and some JSON of this size takes seconds."""

LARGEST_ERROR = 64 << 10
"""The most bytes of an error's body that are read."""

ERROR_TIME = 5.0
"""The most seconds to wait for the body of an error, whose status says the most."""

WHOLE = 1 << 20
"""The fewest bytes of a body that is sent in pieces; as a whole it would hold up other calls."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """An answer whose headers have arrived; what `Transport.request`'s ``read`` leaves is dropped.

    Args:
        status: HTTP's.
        headers: by name, in upper or lower case.
        pieces: the body as it arrives.
    """

    status: int
    headers: Mapping[str, str]
    pieces: AsyncIterator[bytes]

    async def read(self, most: int = LARGEST) -> bytes:
        """The body of a success; a `ModelError` where it has more than ``most`` bytes."""
        if self.headers.get("Content-Type", "").lower().startswith("text/event-stream"):
            # A stream may never end; the beginning is enough to tell that it is one.
            return b"data:"
        size = number(self.headers.get("Content-Length", "")) or 0
        pieces: list[bytes] = []
        if size <= most:
            size = 0
            async for piece in self.pieces:
                pieces.append(piece)
                size += len(piece)
                if size > most:
                    break
        if size > most:
            # Not a passing reason: another try would take as long and fail too.
            raise ModelError(
                "request",
                f"The endpoint's answer is longer than {most >> 20} MB, so it was not read: "
                "check OPENAI_BASE_URL, and the model's name.",
            )
        return b"".join(pieces)

    async def read_error(self, seconds: float) -> bytes:
        """The beginning of an error's body, as far as it arrives within ``seconds``."""
        pieces: list[bytes] = []
        with suppress(ModelError), _mapped_errors():
            async with asyncio.timeout(seconds):
                async for piece in self.pieces:
                    pieces.append(piece)
                    if sum(map(len, pieces)) > LARGEST_ERROR:
                        break
        return b"".join(pieces)[:LARGEST_ERROR]


class Transport:
    """Sends to one endpoint, with a session for each event loop that uses it.

    Args:
        settings: its address and key, and the timeout of a call.
    """

    batch_path = "/v1/chat/completions"
    """The path to which the provider sends each request of a batch."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._sessions: dict[asyncio.AbstractEventLoop, tuple[aiohttp.ClientSession, URL]] = {}
        self._under_way: Counter[asyncio.AbstractEventLoop] = Counter()

    def redact(self, text: str) -> str:
        """A text from the endpoint without the secrets that were sent to it."""
        return self.settings.redact(text)

    def named(self, message: str) -> str:
        """A message with the names of the settings that a user of this transport knows."""
        return message

    async def send(
        self,
        method: str,
        *path: str,
        missing: str = "",
        most: int = LARGEST,
        **sent: Any,  # noqa: ANN401 - as `request` takes it
    ) -> bytes:
        """Send once, and read the answer, of at most ``most`` bytes; a `ModelError` where none
        came, or an error, with the message ``missing`` as `refuse` takes it."""

        async def read(incoming: Incoming) -> bytes:
            await self.refuse(incoming, missing)
            return await incoming.read(most)

        return await self.request(method, *path, read=read, **sent)

    async def refuse(self, incoming: Incoming, missing: str = "") -> None:
        """Raise a `ModelError` if an answer is an error or a redirect; ``missing`` is its message
        for a status of 404 or 405, in place of what the endpoint says."""
        status = incoming.status
        if status < 300:
            return
        body = await incoming.read_error(min(ERROR_TIME, self.settings.timeout / 2))
        if missing and status in (404, 405):
            raise ModelError("request", missing)
        complaint = read_complaint(body, self.redact)
        raise failure(status, incoming.headers, complaint, self.redact)

    async def request(
        self,
        method: str,
        *path: str,
        read: Callable[[Incoming], Awaitable[T]],
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        upload: BinaryIO | None = None,
        pause: float | None = None,
    ) -> T:
        """Send once, and read the answer.

        Args:
            method: HTTP's.
            path: the path below the endpoint's address.
            read: reads the answer, which is then dropped.
            query: added to the query of the endpoint's address.
            body: JSON; empty for none.
            upload: a file of JSON lines for the Batch API, in place of a body.
            pause: the most seconds before each piece of the answer; None for no limit.

        Raises:
            ModelError: nothing came back, or the connection broke off.
        """
        with _mapped_errors():
            import aiohttp

            sent: dict[str, Any] = {}
            if pause is not None:
                sent["timeout"] = timeout(self.settings, pause)
            if upload is not None:
                form = sent["data"] = aiohttp.FormData()
                name = Path(upload.name).name
                form.add_field("purpose", "batch")
                form.add_field("file", upload, filename=name, content_type="application/jsonl")
            elif body:
                # As a payload, the body brings its content type without a header of its own.
                kind = "application/json"
                if len(body) < WHOLE:
                    sent["data"] = aiohttp.BytesPayload(body, content_type=kind)
                else:
                    sent["data"] = aiohttp.BytesIOPayload(io.BytesIO(body), content_type=kind)
            loop = asyncio.get_running_loop()
            if loop not in self._sessions:
                self._sessions[loop] = self._open()
                await self._close()
            session, base = self._sessions[loop]
            url = _below(base, path).update_query(query) if query else _below(base, path)
            with self.calling():
                async with session.request(method, url, allow_redirects=False, **sent) as response:
                    pieces = response.content.iter_any()
                    return await read(Incoming(response.status, response.headers, pieces))

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Mark a call as under way, so that another run that ends does not close the session."""
        loop = asyncio.get_running_loop()
        self._under_way[loop] += 1
        try:
            yield
        finally:
            self._under_way[loop] -= 1
            if not self._under_way[loop]:
                del self._under_way[loop]

    @property
    def called(self) -> bool:
        """Whether a call is under way in this event loop."""
        return asyncio.get_running_loop() in self._under_way

    async def close(self) -> None:
        """Close the session of this event loop, and those of loops that have ended.

        If several runs share a model, the last one of them closes it.
        """
        await self._close(None if self.called else asyncio.get_running_loop())

    async def _close(self, this: asyncio.AbstractEventLoop | None = None) -> None:
        for loop in [loop for loop in self._sessions if loop is this or loop.is_closed()]:
            await self._sessions.pop(loop)[0].close()

    def _open(self) -> tuple[aiohttp.ClientSession, URL]:
        from importlib.metadata import version
        from urllib.request import getproxies, proxy_bypass

        import aiohttp
        from yarl import URL

        settings, url = self.settings, URL(self.settings.url)
        key = settings.api_key.get_secret_value()
        headers = {
            "Accept": "application/json, */*;q=0.9",
            # Answers are short, so compressing them costs more than it saves.
            "Accept-Encoding": "identity",
            "User-Agent": f"pearl/{version('pearl')}",
            "Authorization": f"Bearer {key}" if key else "",
            "OpenAI-Organization": settings.organization,
            "OpenAI-Project": settings.project,
        }
        session = aiohttp.ClientSession(
            # The engine limits how many calls are under way; nobody else does.
            connector=aiohttp.TCPConnector(limit=0),
            headers={name: text for name, text in headers.items() if text},
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=timeout(settings),
            # aiohttp looks for a proxy at every call, in a thread, so only where there is one.
            trust_env=url.scheme in getproxies() and not proxy_bypass(url.host or ""),
        )
        return session, url


@lru_cache(maxsize=32)
def _below(base: URL, path: tuple[str, ...]) -> URL:
    return base.joinpath(*path).with_query(base.query)


async def within(seconds: float, answer: Coroutine[Any, Any, T], noun: str = "answer") -> T:
    """What a coroutine gives; a `ModelError`, which names it by ``noun``, if it takes longer than
    ``seconds``."""
    try:
        async with asyncio.timeout(seconds):
            return await answer
    except TimeoutError:
        raise ModelError("timeout", f"No {noun} within {seconds:g} seconds.") from None


def timeout(settings: Settings, sock_read: float | None = None) -> aiohttp.ClientTimeout:
    """aiohttp's timeouts: to connect, and, if given, the seconds before each piece of an answer."""
    import aiohttp

    connect = min(settings.timeout, CONNECT)
    return aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=sock_read)


FAULTS = {
    "certificate": (
        "request",
        "The endpoint's certificate cannot be verified: check OPENAI_BASE_URL, or name your own "
        "authority in SSL_CERT_FILE.",
    ),
    "protocol": (
        "reply", "The endpoint does not speak HTTP as it should: check OPENAI_BASE_URL.",
    ),
    "half": ("connection", "The endpoint broke off in the middle of its answer."),
    "unreachable": ("connection", "The endpoint cannot be reached: check OPENAI_BASE_URL."),
    "address": (
        "request",
        "There is nowhere to send calls to: check OPENAI_BASE_URL, and http_proxy or https_proxy, "
        "where it is set.",
    ),
    "broken": ("connection", "The endpoint broke the connection off."),
}  # fmt: skip
"""Why a call got no answer: an error's reason and message."""


@contextmanager
def _mapped_errors() -> Iterator[None]:
    """Turn errors of aiohttp into a `ModelError` that says what to do."""
    import aiohttp

    try:
        yield
    except aiohttp.ClientConnectorCertificateError:
        fault = "certificate"
    except aiohttp.ClientResponseError:
        fault = "protocol"
    except aiohttp.ClientPayloadError:
        fault = "half"
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
        fault = "unreachable"
    except ValueError:
        # An invalid address or host name, or a password for it in ~/.netrc beside a key.
        fault = "address"
    except (aiohttp.ClientError, OSError):
        fault = "broken"
    else:
        return
    raise ModelError(*FAULTS[fault], sent=fault in ("protocol", "half", "broken"))
