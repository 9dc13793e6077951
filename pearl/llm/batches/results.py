"""What came of each request of a batch, read with no trust: a bad line costs no other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pearl.llm.batches.seen import Seen
from pearl.llm.completion import reply_of
from pearl.llm.failures import Complaint, Hidden, complaint_of, failure
from pearl.llm.model import ModelError, Reply

LARGEST_LINE = 16 << 20
"""Bytes of a line beyond which it holds no reply that could be used."""

PASSING_CODES = ("server", "internal", "timeout", "unavailable", "overloaded")
"""Parts of codes that say that the provider, and not the request, is to blame."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a line stands: in a file, from a byte, for so many."""

    path: Path
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a request: a reply or an error.

    Args:
        key: the request's.
        place: where it says so.
        reply: the model's.
        error: why there is none.
        complaint: the endpoint's words where it did not take the request as it was written.
    """

    key: str
    place: Place
    reply: Reply | None = None
    error: ModelError | None = None
    complaint: str = ""


def read_outcomes(path: Path, hidden: Hidden) -> Iterator[Outcome]:
    """Every line of a file that can be read.

    Args:
        path: of answers or of failures; nothing where there is no such file.
        hidden: takes the key out of a text.
    """
    if not path.is_file():
        return
    with path.open("rb") as file:
        for start, line in _lines(file):
            outcome = _outcome(line, Place(path, start, len(line)), hidden)
            if outcome is not None:
                yield outcome


def read_outcome(place: Place, hidden: Hidden) -> Outcome | None:
    """A line that was read before; None where it is no longer there.

    Args:
        place: where it stands.
        hidden: takes the key out of a text.
    """
    try:
        with place.path.open("rb") as file:
            file.seek(place.start)
            return _outcome(file.read(place.size), place, hidden)
    except OSError:
        return None


def left_out(seen: Seen) -> ModelError:
    """Why a batch says nothing of a request.

    Args:
        seen: the batch at its end.
    """
    match seen.status:
        case "failed":
            return _failed(seen)
        case "expired":
            return _expired()
        case "cancelled":
            return _cancelled()
        case _:
            return ModelError("reply", f"The batch {seen.id} says nothing of this request.")


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Lines, or the beginnings of those that are too long, each with where it starts."""
    start = 0
    while line := file.readline(LARGEST_LINE):
        yield start, line
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(LARGEST_LINE)
        start = file.tell()


def _outcome(line: bytes, place: Place, hidden: Hidden) -> Outcome | None:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    key = data.get("custom_id") if isinstance(data, dict) else None
    if not isinstance(key, str):
        return None
    response = data.get("response")
    if not isinstance(response, dict):
        return Outcome(key, place, error=_unsent(data.get("error"), hidden))
    status, body = response.get("status_code"), response.get("body")
    if type(status) is int and not 200 <= status < 300:
        complaint = complaint_of(body, hidden)
        error = failure(status if 400 <= status < 600 else 500, {}, complaint)
        refused = status in (400, 422)
        return Outcome(key, place, error=error, complaint=complaint.text if refused else "")
    try:
        return Outcome(key, place, reply=reply_of(body, hidden))
    except ModelError as error:
        return Outcome(key, place, error=error)


def _unsent(error: Any, hidden: Hidden) -> ModelError:  # noqa: ANN401 - any JSON
    """Why the provider did not get to a request."""
    if not error:
        return ModelError("reply", "The batch holds neither a reply to this request nor an error.")
    complaint = complaint_of({"error": error}, hidden)
    code = str(error.get("code") if isinstance(error, dict) else error).lower()
    if len(code) == 3 and code.isdecimal() and 400 <= int(code) < 600:
        return failure(int(code), {}, complaint)
    if "expired" in code:
        return _expired()
    if "cancelled" in code:
        return _cancelled()
    if "rate_limit" in code:
        return failure(429, {}, complaint)
    return failure(500 if any(part in code for part in PASSING_CODES) else 400, {}, complaint)


def _failed(seen: Seen) -> ModelError:
    said = seen.complaint or Complaint()
    words = f"the batch {seen.id} failed: {said.words or 'it says no more'}"
    return failure(429 if seen.crowded_out else 400, {}, Complaint(words, said.codes))


def _expired() -> ModelError:
    return ModelError("server", "The provider did not get to this request in its time window.")


def _cancelled() -> ModelError:
    return ModelError(
        "request", "The batch was cancelled at the provider: run it again to send what is missing."
    )
