"""One request to an endpoint and its answer, or what went wrong, in one line and without the key.

Everything is bounded: the time a connection may take to come about, the bytes
that are read, and what an error may say. No redirect is followed and nothing
is tried again.
"""

from __future__ import annotations

import asyncio
import io
import json
import math
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import urlsplit

from pearl.models.base import ModelError

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

    from pearl.models.settings import Settings

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

SHOWN = 200
"""Characters of an endpoint's own words that a message repeats."""

JSON = {"Content-Type": "application/json"}

QUOTA = ("insufficient_quota", "billing_not_active", "billing_hard_limit_reached")
"""Codes of errors that no waiting mends."""

TOO_LONG = (
    "context_length_exceeded", "exceed_context_size", "string_above_max_length", "context length",
    "context window", "context size", "prompt is too long", "input is too long", "model length",
    "prompt length", "configured limit", "number of tokens allowed", "too many tokens",
    "too large for model", "tokens + `max_new_tokens`", "reduce the length of the",
)  # fmt: skip
"""How endpoints say that a prompt does not fit."""

_TOKENS = r"(\d{1,3}(?:,\d{3})+|\d{3,9})(?!\d|\.\d)"
_WINDOWS = [
    re.compile(pattern.replace("N", _TOKENS), re.IGNORECASE)
    for pattern in (
        r">\s*N\s*(?:tokens\s*)?maximum",
        r"(?:context|model|prompt|input)[ _](?:length|size|window|len)\b"
        r"(?:(?!your|request|exceed)[^\d;:]){0,24}?N",
        r"N\s+(?:tokens?\s+)?maximum context",
        r"(?:limit|tokens allowed|max_model_len)\b[^\d;]{0,12}?N",
        r"(?:must be|less than|cannot exceed|at most)[^\d;]{0,6}?N",
    )
]
"""How endpoints name the tokens that fit a model, each in its own words."""

Redact = Callable[[str], str]
"""Takes the key out of a text."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """An answer whose head has come; leaving the block it is given in lets the rest go.

    Args:
        status: HTTP's.
        headers: by name, in any case.
        pieces: the body as it comes.
    """

    status: int
    headers: Mapping[str, str]
    pieces: AsyncIterator[bytes]

    async def read(self) -> bytes:
        """The body of a success, as far as any answer may go.

        Raises:
            ModelError: it is longer than `LARGEST`.
        """
        if self.headers.get("Content-Type", "").lower().startswith("text/event-stream"):
            # It may never end; what it is, is known.
            return b"data:"
        size = _number(self.headers.get("Content-Length", "")) or 0
        pieces: list[bytes] = []
        if size <= LARGEST:
            size = 0
            async for piece in self.pieces:
                pieces.append(piece)
                size += len(piece)
                if size > LARGEST:
                    break
        if size > LARGEST:
            raise ModelError(
                "reply",
                f"The endpoint's answer is longer than {LARGEST >> 20} MB, so it was not read.",
            )
        return b"".join(pieces)

    async def read_error(self, seconds: float) -> bytes:
        """The beginning of an error, as far as it comes within so many seconds."""
        pieces: list[bytes] = []
        with suppress(TimeoutError, ModelError):
            async with asyncio.timeout(seconds):
                async for piece in self.pieces:
                    pieces.append(piece)
                    if sum(map(len, pieces)) > LARGEST_ERROR:
                        break
        return b"".join(pieces)[:LARGEST_ERROR]


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
    """Sends to one endpoint, with a session for each event loop that uses it.

    Args:
        settings: where it is, who pays, and how long a call may take.
    """

    batch_path = "/v1/chat/completions"
    """Where the provider is to send each request of a batch."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._sessions: dict[asyncio.AbstractEventLoop, tuple[aiohttp.ClientSession, URL]] = {}

    def redact(self, text: str) -> str:
        """A text of the endpoint's without what it was sent in confidence."""
        return self.settings.redact(text)

    def named(self, message: str) -> str:
        """A message that names the settings with which a person says where the endpoint is."""
        return message

    async def post(self, body: bytes, *path: str) -> Answer:
        """Send JSON once, and read the answer.

        Args:
            body: JSON.
            path: below the endpoint's address.

        Raises:
            ModelError: nothing came back, or more than is read.
        """
        async with self.request("POST", *path, body=body) as incoming:
            read = incoming.read() if incoming.status < 300 else self.read_error(incoming)
            return Answer(incoming.status, incoming.headers, await read)

    async def read_error(self, incoming: Incoming) -> bytes:
        """The beginning of an error, as far as it comes soon."""
        return await incoming.read_error(min(ERROR_TIME, self.settings.timeout / 2))

    @asynccontextmanager
    async def request(
        self,
        method: str,
        *path: str,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        upload: BinaryIO | None = None,
        pause: float | None = None,
    ) -> AsyncIterator[Incoming]:
        """Send once; the block reads the answer.

        Args:
            method: HTTP's.
            path: below the endpoint's address.
            query: added to that of the endpoint's address.
            body: JSON; empty for none.
            upload: a file of JSON lines for the Batch API, in place of a body.
            pause: seconds that may pass before each piece of the answer.

        Raises:
            ModelError: nothing came back, or the connection broke within the block.
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
                sent["data"] = body if len(body) < WHOLE else io.BytesIO(body)
                sent["headers"] = JSON
            loop = asyncio.get_running_loop()
            if loop not in self._sessions:
                self._sessions[loop] = self._open()
                await self._close()
            session, base = self._sessions[loop]
            url = base.joinpath(*path).with_query(base.query).update_query(query or {})
            async with session.request(method, url, allow_redirects=False, **sent) as response:
                yield Incoming(response.status, response.headers, self._pieces(response))

    @staticmethod
    async def _pieces(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        with _mapped_errors():
            async for piece in response.content.iter_any():
                yield piece

    async def close(self) -> None:
        """Close what this event loop has open, and what loops that have ended left behind."""
        await self._close(asyncio.get_running_loop())

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
            # Answers are short: packing them costs more than it saves.
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
            # aiohttp looks for a proxy at every call, in a thread: only where there is one.
            trust_env=url.scheme in getproxies() and not proxy_bypass(url.host or ""),
        )
        return session, url


def timeout(settings: Settings, sock_read: float | None = None) -> aiohttp.ClientTimeout:
    """How long a connection may take, and each piece of an answer, in seconds."""
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
    "address": ("request", "There is nowhere to send calls to: check OPENAI_BASE_URL."),
    "broken": ("connection", "The endpoint broke the connection off."),
}  # fmt: skip
"""Why a call got no answer: an error's reason and message."""


@contextmanager
def _mapped_errors() -> Iterator[None]:
    """A call that got no answer says why, and what to do."""
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
        # No address, a host that cannot be written, or a password for it in ~/.netrc beside a key.
        fault = "address"
    except (aiohttp.ClientError, OSError):
        fault = "broken"
    else:
        return
    raise ModelError(*FAULTS[fault], sent=fault in ("protocol", "half", "broken"))


@dataclass(frozen=True, slots=True)
class Complaint:
    """What an endpoint says of an error.

    Args:
        words: its message, in one line and without the key; empty for none.
        codes: names of the error's kind and of the field it is about.
        n_ctx: llama.cpp's field of that name, the tokens of its window; 0 where there is none.
    """

    words: str = ""
    codes: str = ""
    n_ctx: int = 0

    @property
    def text(self) -> str:
        """All of it, to look things up in."""
        return f"{self.words} {self.codes}"

    @property
    def window(self) -> int | None:
        """Tokens that fit the model, where that can be read; the smallest number in question, as
        the other is the prompt's."""
        found = [match[1] for pattern in _WINDOWS for match in pattern.finditer(self.words)]
        return self.n_ctx or min((int(each.replace(",", "")) for each in found), default=None)


def read_complaint(body: bytes, redact: Redact) -> Complaint:
    """An error's body, whatever shape it has; a web page has no words worth repeating."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return Complaint(_words(body.decode("utf-8", "replace"), redact))
    return complaint_of(data, redact)


def complaint_of(data: Any, redact: Redact) -> Complaint:  # noqa: ANN401 - any JSON
    """What a piece of JSON says of an error."""
    error = data.get("error", data) if isinstance(data, dict) else data
    if not isinstance(error, dict):
        return Complaint(_words(error, redact) if isinstance(error, str) else "")
    named = [error.get(name) for name in ("code", "type", "param")]
    codes = " ".join(_words(name, redact) for name in named if isinstance(name, str))
    words = next((error[name] for name in ("message", "detail", "error") if error.get(name)), "")
    if not isinstance(words, str):
        # What is wrong with which field, as validators list it.
        words = json.dumps(words, ensure_ascii=False)
    n_ctx = error.get("n_ctx")
    return Complaint(_words(words, redact), codes, n_ctx if type(n_ctx) is int else 0)


def _words(text: str, redact: Redact) -> str:
    """A text in one line and without the key; nothing of a web page."""
    return "" if text.lstrip().startswith("<") else " ".join(redact(text).split())


def failure(status: int, headers: Mapping[str, str], complaint: Complaint) -> ModelError:
    """An error that an endpoint answered with.

    Args:
        status: HTTP's, 300 or above.
        headers: of the response.
        complaint: what it says.
    """
    reason, message = _judged(status, headers, complaint)
    seconds = _number(headers.get("retry-after-ms", ""), 1000)
    if seconds is None:
        seconds = _number(text := headers.get("Retry-After", ""))
        if seconds is None and (until := _date(text)):
            # The endpoint's own clock, where it tells it: ours may differ.
            now = _date(headers.get("Date", "")) or datetime.now(UTC)
            seconds = (until - now).total_seconds()
    wait = seconds if seconds is not None and 0 < seconds < math.inf else None
    window = complaint.window if reason == "context" else None
    if reason == "context" and window is None:
        message += " Say in PEARL_CONTEXT how many tokens fit it."
    return ModelError(reason, message, retry_after=wait, window=window, status=status)


def _judged(status: int, headers: Mapping[str, str], complaint: Complaint) -> tuple[str, str]:
    """A `ModelError`'s reason and message."""
    words = complaint.words[:SHOWN] or f"it says {status} and no more."
    words = words if words.endswith((".", "!", "?")) else f"{words}."
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
        return "server", f"The endpoint failed: {words}"
    too_long = any(phrase in complaint.text.lower() for phrase in TOO_LONG)
    if status == 413 or (status in (400, 422) and too_long):
        return "context", f"The prompt does not fit the model: {words}"
    if status == 404:
        return "request", (
            f"The endpoint knows no such model or address: {words} "
            "Check --model and OPENAI_BASE_URL."
        )
    # More tokens than the account may send in a minute: no pause makes them fewer.
    too_large = complaint.words.lower().startswith("request too large")
    if status == 425 or (status == 429 and not too_large):
        return "rate", f"The endpoint turns calls away: {words} Try again later."
    return "request", f"The endpoint refused the request: {words}"


def _number(text: str, unit: int = 1) -> float | None:
    try:
        return float(text) / unit
    except ValueError:
        return None


def _date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
