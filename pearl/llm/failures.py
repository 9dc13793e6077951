"""What an endpoint answers instead of a completion: what happened, and what to do, in one line."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from pearl.llm.model import ModelError

QUOTA = "insufficient_quota"
"""The code of an error that no waiting mends."""

SHOWN = 200
"""Characters of an endpoint's own words that a message repeats."""

CROWDED = frozenset({429, 503, 529})
"""States that say when to come back."""

_TOO_LONG = re.compile(r"context.{0,20}(?:length|window)|maximum.{0,20}tokens|too long", re.I)


def status_error(
    status: int, headers: Mapping[str, str], data: bytes, hidden: Callable[[str], str]
) -> ModelError:
    """An answer with another status than 200 as an error.

    Args:
        status: its HTTP status.
        headers: its headers.
        data: its body.
        hidden: takes the key out of a text.
    """
    body = _error(data)
    said = _said(body, status, hidden)
    if QUOTA in (body.get("code"), body.get("type")):
        return ModelError("quota", "The account's quota is used up: nothing more can be asked.")
    wait = retry_after(headers) if status in CROWDED else None
    match status:
        case 401 | 403:
            return ModelError(
                "authentication", "The endpoint refuses the key: check OPENAI_API_KEY."
            )
        case 404:
            return ModelError(
                "request",
                f"The endpoint knows no such model or address: {said} "
                "Check --model and OPENAI_BASE_URL.",
            )
        case 408 | 504:
            return ModelError("timeout", "The endpoint did not answer in time.")
        case 429:
            return ModelError(
                "rate",
                f"The endpoint turns calls away: {said} Try again later.",
                retry_after=wait,
            )
        case 409 | 425:
            return ModelError("server", f"The endpoint was busy with itself: {said}")
        case _ if status >= 500:
            return ModelError("server", f"The endpoint failed: {said}", retry_after=wait)
        case _ if 300 <= status < 400:
            return ModelError(
                "request", "The endpoint sends calls elsewhere: check OPENAI_BASE_URL."
            )
        case 400 | 413 if body.get("code") == "context_length_exceeded" or _TOO_LONG.search(said):
            return ModelError("context", f"The prompt does not fit the model: {said}")
        case _ if 200 <= status < 300:
            return ModelError("reply", f"The endpoint answers with status {status} and no text.")
        case _:
            return ModelError("request", f"The endpoint refused the request: {said}")


def connection_error(error: Exception) -> ModelError:
    """A failure below HTTP as an error; its words may hold addresses, and are left out."""
    import aiohttp

    if isinstance(error, aiohttp.InvalidURL):
        return ModelError(
            "request", "The endpoint's address cannot be read: check OPENAI_BASE_URL."
        )
    if isinstance(error, aiohttp.ClientPayloadError):
        return ModelError("connection", "The endpoint broke off in the middle of its answer.")
    if isinstance(error, aiohttp.ServerDisconnectedError | ConnectionResetError):
        return ModelError("connection", "The endpoint broke the connection off.")
    if isinstance(error, aiohttp.ClientSSLError):
        return ModelError("connection", "The endpoint's certificate is not to be trusted.")
    if isinstance(error, aiohttp.ClientResponseError):
        return ModelError("reply", "The endpoint does not speak HTTP as it should.")
    return ModelError("connection", "The endpoint cannot be reached: check OPENAI_BASE_URL.")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that an endpoint asks to wait, or None where it does not say."""
    try:
        if given := headers.get("retry-after-ms"):
            return max(0.0, float(given) / 1000)
        given = headers.get("Retry-After", "").strip()
        if re.fullmatch(r"\d+(?:\.\d+)?", given):
            return float(given)
        return max(0.0, parsedate_to_datetime(given).timestamp() - time.time()) if given else None
    except (ValueError, TypeError, OverflowError):
        return None


def _error(data: bytes) -> dict[str, Any]:
    """The error object of a body; empty where there is none."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    error = body.get("error", body) if isinstance(body, dict) else {}
    return error if isinstance(error, dict) else {"message": error}


def _said(body: Mapping[str, Any], status: int, hidden: Callable[[str], str]) -> str:
    """The endpoint's own words, as one sentence; a web page has none worth repeating."""
    told = body.get("message")
    text = " ".join(hidden(told).split()) if isinstance(told, str) else ""
    if not text or text.startswith("<"):
        return f"it says {status} and no more."
    text = text[:SHOWN]
    return text if text.endswith((".", "!", "?")) else f"{text}."
