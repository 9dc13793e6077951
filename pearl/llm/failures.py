"""What went wrong and what to do, in one line, without a key."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from pearl.llm.model import ModelError

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
