"""One POST and its answer, bounded in every way, over connections that are kept open.

What went wrong and what to do, in one line, without a key.
"""

from __future__ import annotations

import asyncio
import io
import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pearl.models.base import ModelError

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

    from pearl.models.settings import Settings


QUOTA = ("insufficient_quota", "billing_not_active", "billing_hard_limit_reached")
"""Codes of errors that no waiting mends."""

TOO_LONG = (
    "context_length_exceeded", "exceed_context_size", "string_above_max_length", "context length",
    "context window", "context size", "prompt is too long", "input is too long",
)  # fmt: skip
"""How endpoints say that a prompt does not fit."""

SHOWN = 200
"""Characters of an endpoint's own words that a message repeats."""

Hidden = Callable[[str], str]
"""Takes the key out of a text."""


@dataclass(frozen=True, slots=True)
class Complaint:
    """What an endpoint says of an error.

    Args:
        words: its message, in one line and without the key; empty for none.
        codes: names of the error's kind and of the field it is about.
    """

    words: str = ""
    codes: str = ""

    @property
    def text(self) -> str:
        """All of it, to look things up in."""
        return f"{self.words} {self.codes}"

    def told(self, otherwise: str) -> str:
        """Its message as one sentence."""
        words = self.words[:SHOWN]
        if not words:
            return otherwise
        return words if words.endswith((".", "!", "?")) else f"{words}."


def read_complaint(body: bytes, hidden: Hidden) -> Complaint:
    """An error's body, whatever shape it has; a web page has no words worth repeating.

    Args:
        body: what the endpoint sent.
        hidden: takes the key out of a text.
    """
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return Complaint(_words(body.decode("utf-8", "replace"), hidden))
    return complaint_of(data, hidden)


def complaint_of(data: Any, hidden: Hidden) -> Complaint:  # noqa: ANN401 - any JSON
    """What a piece of JSON says of an error.

    Args:
        data: the JSON.
        hidden: takes the key out of a text.
    """
    error = data.get("error", data) if isinstance(data, dict) else data
    if not isinstance(error, dict):
        return Complaint(_words(error, hidden) if isinstance(error, str) else "")
    named = [error.get(name) for name in ("code", "type", "param")]
    codes = " ".join(_words(name, hidden) for name in named if isinstance(name, str))
    words = next((error[name] for name in ("message", "detail", "error") if error.get(name)), "")
    if not isinstance(words, str):
        # What is wrong with which field, as validators list it.
        words = json.dumps(words, ensure_ascii=False)
    return Complaint(_words(words, hidden), codes)


def failure(status: int, headers: Mapping[str, str], complaint: Complaint) -> ModelError:
    """An error that an endpoint answered with.

    Args:
        status: HTTP's, 300 or above.
        headers: of the response.
        complaint: what it says.
    """
    reason, message = _judged(status, headers, complaint)
    return ModelError(reason, message, retry_after=retry_after(headers))


def _judged(status: int, headers: Mapping[str, str], complaint: Complaint) -> tuple[str, str]:
    said = complaint.told(f"it says {status} and no more.")
    if status < 400:
        host = urlsplit(headers.get("Location", "")).hostname
        where = f" to {host[:SHOWN]}" if host else ""
        return "request", f"The endpoint sends calls elsewhere{where}: check OPENAI_BASE_URL."
    if status == 402 or any(code in complaint.text for code in QUOTA):
        return "quota", "The account's quota is used up: nothing more can be asked."
    if status in (401, 403):
        return "authentication", "The endpoint refuses the key: check OPENAI_API_KEY."
    if status == 408:
        return "timeout", "The endpoint did not answer in time."
    if status == 409 or status >= 500:
        return "server", f"The endpoint failed: {said}"
    too_long = any(words in complaint.text.lower() for words in TOO_LONG)
    if status == 413 or (status in (400, 422) and too_long):
        return "context", f"The prompt does not fit the model: {said}"
    if status == 404:
        return "request", (
            f"The endpoint knows no such model or address: {said} "
            "Check --model and OPENAI_BASE_URL."
        )
    if status == 429 and complaint.words.lower().startswith("request too large"):
        # More tokens than the account may send in a minute: no pause makes them fewer.
        return "request", f"The endpoint refused the request: {said}"
    if status in (425, 429):
        return "rate", f"The endpoint turns calls away: {said} Try again later."
    return "request", f"The endpoint refused the request: {said}"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that an endpoint asks to wait; None where it names none, or a time that is over.

    Args:
        headers: of the response.
    """
    seconds = _seconds(headers)
    return seconds if seconds is not None and 0 < seconds < math.inf else None


def _seconds(headers: Mapping[str, str]) -> float | None:
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("Retry-After", "")
    seconds = _number(text)
    if seconds is not None:
        return seconds
    until, now = _date(text), _date(headers.get("Date", ""))
    # The endpoint's own clock, where it tells it: ours may differ.
    return (until - (now or datetime.now(UTC))).total_seconds() if until else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def connection_failure(error: Exception) -> ModelError:
    """A call that got no answer.

    Args:
        error: aiohttp's, or the system's.
    """
    import aiohttp

    match error:
        case aiohttp.InvalidURL():
            return misdirected()
        case aiohttp.ClientConnectorCertificateError():
            return ModelError(
                "request",
                "The endpoint's certificate cannot be verified: check OPENAI_BASE_URL, or name "
                "your own authority in SSL_CERT_FILE.",
            )
        case aiohttp.ClientResponseError():
            return ModelError(
                "reply", "The endpoint does not speak HTTP as it should: check OPENAI_BASE_URL."
            )
        case aiohttp.ClientPayloadError():
            return ModelError("connection", "The endpoint broke off in the middle of its answer.")
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
            return ModelError(
                "connection", "The endpoint cannot be reached: check OPENAI_BASE_URL."
            )
        case _:
            return ModelError("connection", "The endpoint broke the connection off.")


def misdirected() -> ModelError:
    """A call that cannot be sent where it should go."""
    return ModelError("request", "There is nowhere to send calls to: check OPENAI_BASE_URL.")


def _words(text: str, hidden: Hidden) -> str:
    """A text in one line and without the key; nothing of a web page."""
    return "" if text.lstrip().startswith("<") else " ".join(hidden(text).split())


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
