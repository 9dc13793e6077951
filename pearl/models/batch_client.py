"""The calls of a Batch API; what comes back is not trusted.

A damaged line of results does not affect the others. Nothing here is retried.

The calls use a transport, so that they go through the SDK's client where one is used (Azure) and
over our own session elsewhere. The SDK's ``client.files`` and ``client.batches`` would save the
five addresses and nothing more: the SDK checks none of the JSON that it turns into objects, so that
every name and count would still have to be checked; it follows redirects with what it sends; and it
does not limit the size of an answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from pearl.models.base import ModelError, Reply
from pearl.models.endpoint_replies import Complaint, complaint_of, failure, natural, reply_of
from pearl.models.secrets import Redact
from pearl.models.transport import Incoming, Transport, within

SLOWEST = 50_000
"""The slowest upload or download, in bytes a second, that does not time out."""

PAGES = 10
"""Pages of a hundred batches that are searched for one of ours."""

LARGEST_LINE = 16 << 20
"""The most bytes of a line of results that is read."""

ENDS = frozenset({"completed", "failed", "expired", "cancelled"})
"""The provider's words for a batch that has ended."""

NO_ROOM = "token_limit_exceeded"
"""The provider's code where batches under way leave no room for another."""

PASSING_CODES = ("server", "internal", "timeout", "unavailable", "overloaded")
"""Parts of error codes that blame the provider, and not the request."""

UNREACHED = {
    "expired": ("server", "The provider did not get to this request in its time window."),
    "cancelled": (
        "request",
        "The batch was cancelled at the provider: run it again to send what is missing.",
    ),
}
"""The error's reason and message for requests that were not made before their batch ended."""

_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,200}")


@dataclass(frozen=True, slots=True)
class ProviderBatch:
    """A batch as the provider shows it.

    Args:
        id: the provider's name for it.
        status: the provider's word, as ``in_progress``.
        input_file_id: the file of its requests.
        output_file_id: the file of its answers; empty where there are none.
        error_file_id: the file of its failures; empty where there are none.
        completed: the number of requests that were answered.
        failed: the number of requests that failed.
        complaint: the first error of the batch as a whole, or None.
    """

    id: str
    status: str
    input_file_id: str = ""
    output_file_id: str = ""
    error_file_id: str = ""
    completed: int = 0
    failed: int = 0
    complaint: Complaint | None = None

    @property
    def crowded_out(self) -> bool:
        """Whether it failed only because other batches left no room for it."""
        complaint = self.complaint
        return self.status == "failed" and complaint is not None and NO_ROOM in complaint.codes

    def left_out(self) -> ModelError:
        """The error for a request that is missing from the results of an ended batch."""
        if self.status in UNREACHED:
            return ModelError(*UNREACHED[self.status])
        if self.status != "failed":
            return ModelError("reply", f"The batch {self.id} says nothing of this request.")
        complaint = self.complaint or Complaint()
        words = f"the batch {self.id} failed: {complaint.words or 'it says no more'}"
        return failure(429 if self.crowded_out else 400, {}, Complaint(words, complaint.codes))


class BatchClient:
    """The calls of the Batch API: upload a file, create a batch, look at it, download a file.

    Every method raises a `ModelError` where the call failed.

    Args:
        transport: the transport to the endpoint.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._limit = transport.settings.timeout
        self.close = transport.close

    async def upload(self, path: Path) -> str:
        """Upload a file of requests, and return the provider's name for it."""
        try:
            file = path.open("rb")
        except OSError as error:
            raise ModelError("store", f"{path} cannot be read ({error.strerror}).") from None
        with file:
            answer = await self._ask(
                "POST",
                "files",
                missing="The endpoint has no Batch API: ask it live, or check OPENAI_BASE_URL.",
                seconds=self._limit + os.fstat(file.fileno()).st_size / SLOWEST,
                upload=file,
            )
        name = _name(answer, "id")
        if not name:
            raise _no_batch_api()
        return name

    async def create(self, input_file_id: str, mark: str) -> ProviderBatch:
        """Create a batch of an uploaded file, with a mark by which a person may recognize it."""
        fields = {
            "input_file_id": input_file_id,
            "endpoint": self._transport.batch_path,
            "completion_window": "24h",
            "metadata": {"pearl": mark},
        }
        body = json.dumps(fields).encode()
        return self._read(await self._ask("POST", "batches", body=body))

    async def look(self, batch_id: str) -> ProviderBatch:
        """The status of a batch at the provider."""
        missing = (
            f"The endpoint knows no batch {batch_id}: use the key that it was sent with, or remove "
            "its .json file to send its requests anew."
        )
        return self._read(await self._ask("GET", "batches", batch_id, missing=missing))

    async def recent(self) -> AsyncIterator[ProviderBatch]:
        """The account's latest batches, newest first."""
        query = {"limit": "100"}
        for _ in range(PAGES):
            page = await self._ask("GET", "batches", query=query)
            items = page.get("data")
            if not isinstance(items, list):
                raise _no_batch_api()
            items = [item if isinstance(item, dict) else {} for item in items]
            for item in items:
                if _name(item, "id") and _name(item, "status"):
                    yield self._read(item)
            last = _name(items[-1], "id") if items else ""
            if page.get("has_more") is not True or not last:
                return
            query["after"] = last

    async def download(self, file_id: str, file: BinaryIO, most: int) -> None:
        """Write a provider's file, up to ``most`` bytes; nothing where the file is gone."""
        clock, limit = asyncio.get_running_loop().time, self._limit
        late = clock() + limit
        path = ("files", file_id, "content")

        async def read(incoming: Incoming) -> None:
            size = 0
            if incoming.status in (404, 410):
                return
            await self._transport.refuse(incoming)
            async for piece in incoming.pieces:
                try:
                    file.write(piece[: most - size])
                except OSError as error:
                    # Not an error of the endpoint, for which the download would be retried.
                    raise ModelError(
                        "store",
                        f"A batch's answers cannot be written ({error.strerror}): make room, and "
                        "run it again.",
                    ) from None
                size += len(piece)
                if size >= most:
                    break
                if clock() > late + size / SLOWEST:
                    raise ModelError("timeout", "The endpoint hardly sends a batch's answers.")

        await self._transport.request("GET", *path, read=read, pause=limit)

    async def _ask(
        self,
        method: str,
        *path: str,
        missing: str = "",
        seconds: float = 0,
        **sent: Any,  # noqa: ANN401 - the transport's
    ) -> dict[str, Any]:
        """The JSON object that a call gives; ``missing`` is the message for a status of 404."""
        answer = self._transport.send(method, *path, missing=missing, **sent)
        body = await within(seconds or self._limit, answer)
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict):
            raise _no_batch_api()
        return data

    def _read(self, data: dict[str, Any]) -> ProviderBatch:
        names = ("id", "status", "input_file_id", "output_file_id", "error_file_id")
        name, status, sent, output, failures = (_name(data, field) for field in names)
        if not name or not status:
            raise _no_batch_api()
        counts = data.get("request_counts")
        counts = counts if isinstance(counts, dict) else {}
        done, failed = natural(counts.get("completed")), natural(counts.get("failed"))
        errors = data.get("errors")
        errors = errors.get("data") if isinstance(errors, dict) else errors
        complaint = None
        if isinstance(errors, list) and errors and isinstance(errors[0], dict):
            complaint = complaint_of(errors[0], self._transport.redact)
            if line := natural(errors[0].get("line")):
                complaint = Complaint(f"line {line}: {complaint.words}", complaint.codes)
        return ProviderBatch(name, status, sent, output, failures, done, failed, complaint)


def _name(data: dict[str, Any], field: str) -> str:
    """A field that holds a name or a word of the provider's; empty where it could not stand in an
    address."""
    text = data.get(field)
    return text if isinstance(text, str) and _NAME.fullmatch(text) else ""


def _no_batch_api() -> ModelError:
    return ModelError(
        "reply", "The endpoint does not answer as a Batch API does: check OPENAI_BASE_URL."
    )


Place: TypeAlias = tuple[Path, int, int]


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """The outcome of a request, and the line of a file that holds it.

    Args:
        key: the request's key.
        place: the file, the byte at which the line starts, and the line's length in bytes.
        result: the model's reply, or why the request failed.
    """

    key: str
    place: Place
    result: Reply | ModelError


def read_outcomes(path: Path, redact: Redact) -> Iterator[RequestOutcome]:
    """The outcome in every readable line of a file; none where there is no such file."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        start = 0
        # Only the beginning of a line that is too long is read, which is no JSON.
        while line := file.readline(LARGEST_LINE):
            outcome = _outcome(line, (path, start, len(line)), redact)
            if outcome is not None:
                yield outcome
            while line and not line.endswith(b"\n"):
                line = file.readline(LARGEST_LINE)
            start = file.tell()


def reread(key: str, place: Place, redact: Redact) -> Reply | None:
    """Read a reply again; None where its line is no longer there."""
    path, start, size = place
    try:
        with path.open("rb") as file:
            file.seek(start)
            line = file.read(size)
    except OSError:
        return None
    outcome = _outcome(line, place, redact)
    if outcome is None or outcome.key != key or isinstance(outcome.result, ModelError):
        return None
    return outcome.result


def _outcome(line: bytes, place: Place, redact: Redact) -> RequestOutcome | None:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    key = data.get("custom_id") if isinstance(data, dict) else None
    if not isinstance(key, str):
        return None
    response = data.get("response")
    if not isinstance(response, dict):
        return RequestOutcome(key, place, _unsent(data.get("error"), redact))
    status, body = response.get("status_code"), response.get("body")
    if type(status) is int and not 200 <= status < 300:
        status = status if 400 <= status < 600 else 500
        return RequestOutcome(key, place, failure(status, {}, complaint_of(body, redact)))
    try:
        return RequestOutcome(key, place, reply_of(body, redact))
    except ModelError as unusable:
        return RequestOutcome(key, place, unusable)


def _unsent(error: Any, redact: Redact) -> ModelError:  # noqa: ANN401 - any JSON
    """The error for a request that the provider did not make."""
    if not error:
        return ModelError("reply", "The batch holds neither a reply to this request nor an error.")
    code = str(error.get("code") if isinstance(error, dict) else error).lower()
    for end, why in UNREACHED.items():
        if end in code:
            return ModelError(*why)
    if re.fullmatch(r"[45]\d\d", code):
        status = int(code)
    elif "rate_limit" in code:
        status = 429
    else:
        status = 500 if any(part in code for part in PASSING_CODES) else 400
    return failure(status, {}, complaint_of({"error": error}, redact))
