"""What is on disk about each batch, and what came of each request, read with no trust.

A folder holds a lock and, for a batch 1, ``0001.jsonl`` (its requests),
``0001.json`` (how far it has come), ``0001.output.jsonl`` and
``0001.error.jsonl`` (its results). Every file is written under another name
and put in place when it is whole, so a process may end at any moment, and the
next one goes on. A bad line of a result costs no other.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

from pearl.lang.source import replacing
from pearl.lang.values import canonical_json
from pearl.models.base import ModelError, Reply
from pearl.models.openai import reply_of
from pearl.models.transport import Complaint, Redact, complaint_of, failure

Stage = Literal["written", "uploaded", "submitting", "submitted", "ended"]
"""How far a batch has come. ``submitting`` is recorded before the call, ``submitted`` after it:
between the two nobody but the provider knows."""

ENDPOINT = "/v1/chat/completions"
"""Where the provider is to send each request of a batch."""

OPENING = '{"custom_id":'
"""What each line of a file of requests opens with."""


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """What is known of a batch.

    Args:
        number: its files' name.
        identity: of the model that it asks.
        requests: how many it has.
        keys: a hash of their keys, in order.
        stage: how far it has come.
        input_file_id: the provider's name of what was uploaded; empty before.
        batch_id: the provider's name of the batch; empty before it is submitted.
        status: what the provider last said of it.
        output_file_id: the provider's name of the answers; empty where there are none.
        error_file_id: the provider's name of the failures; empty where there are none.
        past: batches of the same input that the provider had no room for.
    """

    number: int
    identity: str
    requests: int
    keys: str
    stage: Stage = "written"
    input_file_id: str = ""
    batch_id: str = ""
    status: str = ""
    output_file_id: str = ""
    error_file_id: str = ""
    past: tuple[str, ...] = ()


def request_line(key: str, body: bytes) -> bytes:
    """A line of a file of requests.

    Args:
        key: the request's.
        body: as it would be sent to the endpoint.
    """
    head = f'{OPENING}{canonical_json(key)},"method":"POST","url":"{ENDPOINT}","body":'
    return b"".join((head.encode(), body, b"}\n"))


class BatchFolder:
    """Where the batches of one or several models are kept, for one process at a time.

    Every method raises a `ModelError` where the disk or a file cannot be used.

    Args:
        path: of the folder; it is made where it is missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock: BinaryIO | None = None

    def open(self) -> None:
        """Take the folder for this process."""
        with self._disk():
            self._path.mkdir(parents=True, exist_ok=True)
            lock = (self._path / "lock").open("ab")
        if not _locked(lock):
            lock.close()
            raise ModelError(
                "store",
                f"Another process works in {self._path}: wait for its end, or name another folder.",
            )
        self._lock = lock
        with self._disk():
            # What a process that was killed left half written.
            for part in self._path.glob(".*.part"):
                part.unlink(missing_ok=True)

    def close(self) -> None:
        """Leave the folder to others."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def requests(self, number: int) -> Path:
        """The file of a batch's requests."""
        return self._path / f"{number:04}.jsonl"

    def results(self, number: int) -> tuple[Path, Path]:
        """The files of a batch's answers and of its failures."""
        name = self._path / f"{number:04}"
        return name.with_suffix(".output.jsonl"), name.with_suffix(".error.jsonl")

    def records(self) -> list[BatchRecord]:
        """Every batch that is known, by number."""
        with self._disk():
            names = [path.stem for path in self._path.glob("*.json")]
        return [self.record(number) for number in sorted(map(int, filter(str.isdecimal, names)))]

    def record(self, number: int) -> BatchRecord:
        """What is known of a batch."""
        path = self._record(number)
        with self._disk():
            text = path.read_bytes()
        try:
            data = json.loads(text)
            record = BatchRecord(**{**data, "past": tuple(data.get("past", ()))})
            valid = record.number == number and record.stage in get_args(Stage)
        except (ValueError, TypeError, AttributeError, RecursionError):
            valid = False
        if not valid:
            raise ModelError(
                "store",
                f"{path} cannot be read: put it back, or remove it to send its requests anew.",
            )
        return record

    def save(self, record: BatchRecord) -> BatchRecord:
        """Write down what is known of a batch."""
        with self.writing(self._record(record.number)) as file:
            file.write(canonical_json(asdict(record)).encode() + b"\n")
        return record

    def add(self, identity: str, lines: Sequence[tuple[str, bytes]]) -> BatchRecord:
        """Begin a batch.

        Args:
            identity: of the model that is asked.
            lines: the requests' keys, each with its `request_line`.
        """
        number = max((record.number for record in self.records()), default=0) + 1
        with self._disk():
            # Of a batch whose record a person has removed.
            for path in self.results(number):
                path.unlink(missing_ok=True)
        with self.writing(self.requests(number)) as file:
            file.writelines(line for _, line in lines)
        return self.save(BatchRecord(number, identity, len(lines), _hash(key for key, _ in lines)))

    def keys(self, record: BatchRecord) -> list[str]:
        """The keys of a batch's requests, in order."""
        path = self.requests(record.number)
        decoder = json.JSONDecoder()
        with self._disk(), path.open("rb") as file:
            try:
                keys = [decoder.raw_decode(line.decode(), len(OPENING))[0] for line in file]
                same = _hash(keys) == record.keys
            except (ValueError, TypeError, RecursionError):
                same = False
        if not same:
            raise ModelError(
                "store",
                f"{path} is not as it was written: put it back, or remove "
                f"{self._record(record.number).name} to send its requests anew.",
            )
        return keys

    @contextmanager
    def writing(self, path: Path) -> Iterator[BinaryIO]:
        """A file that takes its name when the block ends well."""
        with self._disk(), replacing(path) as file:
            yield file

    def _record(self, number: int) -> Path:
        return self._path / f"{number:04}.json"

    @contextmanager
    def _disk(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ModelError(
                "store",
                f"The folder {self._path} cannot be used ({error.strerror}): make room, or name "
                "another.",
            ) from None


def _locked(file: BinaryIO) -> bool:
    """Take a file for this process, where the system knows how; it ends with the process."""
    try:
        import fcntl
    except ImportError:
        return True
    with suppress(OSError):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _hash(keys: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(keys).encode("utf-8", "surrogatepass")).hexdigest()


# --- a batch as the provider shows it ---

ENDS = frozenset({"completed", "failed", "expired", "cancelled"})
"""What the provider calls a batch that is over."""

NO_ROOM = "token_limit_exceeded"
"""The provider's code where batches under way leave no room for another."""

_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,200}")


@dataclass(frozen=True, slots=True)
class ProviderBatch:
    """A batch as the provider shows it.

    Args:
        id: the provider's name of it.
        status: the provider's word, as ``in_progress``.
        input_file_id: what it was made of.
        output_file_id: its answers; empty where there are none.
        error_file_id: its failures; empty where there are none.
        completed: requests that were answered.
        failed: requests that failed.
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
        """Whether it failed for want of room, and for nothing in it."""
        complaint = self.complaint
        return self.status == "failed" and complaint is not None and NO_ROOM in complaint.codes


def read_batch(data: dict[str, Any], redact: Redact) -> ProviderBatch:
    """A batch, from what the provider sent.

    Raises:
        ModelError: it is no batch.
    """
    name, status = read_name(data.get("id")), read_name(data.get("status"))
    if not name or not status:
        raise no_batch_api()
    counts = data.get("request_counts")
    counts = counts if isinstance(counts, dict) else {}
    errors = data.get("errors")
    errors = errors.get("data") if isinstance(errors, dict) else errors
    complaint = None
    if isinstance(errors, list) and errors and isinstance(errors[0], dict):
        complaint = complaint_of(errors[0], redact)
        line = _whole(errors[0].get("line"))
        if line:
            complaint = Complaint(f"line {line}: {complaint.words}", complaint.codes)
    return ProviderBatch(
        name,
        status,
        read_name(data.get("input_file_id")),
        read_name(data.get("output_file_id")),
        read_name(data.get("error_file_id")),
        _whole(counts.get("completed")),
        _whole(counts.get("failed")),
        complaint,
    )


def read_name(text: object) -> str:
    """A name or a word of the provider's, which goes into addresses; empty where it is none."""
    return text if isinstance(text, str) and _NAME.fullmatch(text) else ""


def no_batch_api() -> ModelError:
    """What is raised where an answer is none of a Batch API's."""
    return ModelError(
        "reply", "The endpoint does not answer as a Batch API does: check OPENAI_BASE_URL."
    )


def _whole(number: object) -> int:
    return number if type(number) is int and number > 0 else 0


# --- what came of each request ---

LARGEST_LINE = 16 << 20
"""Bytes of a line beyond which it holds no reply that could be used."""

PASSING_CODES = ("server", "internal", "timeout", "unavailable", "overloaded")
"""Parts of codes that say that the provider, and not the request, is to blame."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a request: a reply or an error, and the line of a file that says so.

    Args:
        key: the request's.
        path: of the file.
        start: the byte at which the line starts.
        size: the line's bytes.
        reply: the model's.
        error: why there is none.
        complaint: the endpoint's words where it did not take the request as it was written.
    """

    key: str
    path: Path
    start: int
    size: int
    reply: Reply | None = None
    error: ModelError | None = None
    complaint: str = ""


def read_outcomes(path: Path, redact: Redact) -> Iterator[Outcome]:
    """What every line of a file says that can be read; nothing where there is no such file."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        start = 0
        # Of a line that is too long, its beginning.
        while line := file.readline(LARGEST_LINE):
            outcome = _outcome(line, path, start, redact)
            if outcome is not None:
                yield outcome
            while line and not line.endswith(b"\n"):
                line = file.readline(LARGEST_LINE)
            start = file.tell()


def reread(outcome: Outcome, redact: Redact) -> Reply | None:
    """A reply that was read before; None where its line is no longer there."""
    try:
        with outcome.path.open("rb") as file:
            file.seek(outcome.start)
            line = file.read(outcome.size)
    except OSError:
        return None
    found = _outcome(line, outcome.path, outcome.start, redact)
    return found.reply if found is not None and found.key == outcome.key else None


def _outcome(line: bytes, path: Path, start: int, redact: Redact) -> Outcome | None:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    key = data.get("custom_id") if isinstance(data, dict) else None
    if not isinstance(key, str):
        return None
    reply, error, refused = None, None, ""
    response = data.get("response")
    if not isinstance(response, dict):
        error = _unsent(data.get("error"), redact)
    else:
        status, body = response.get("status_code"), response.get("body")
        if type(status) is int and not 200 <= status < 300:
            complaint = complaint_of(body, redact)
            error = failure(status if 400 <= status < 600 else 500, {}, complaint)
            refused = complaint.text if status in (400, 422) else ""
        else:
            try:
                reply = reply_of(body, redact)
            except ModelError as unusable:
                error = unusable
    return Outcome(key, path, start, len(line), reply, error, refused)


def _unsent(error: Any, redact: Redact) -> ModelError:  # noqa: ANN401 - any JSON
    """Why the provider did not get to a request."""
    if not error:
        return ModelError("reply", "The batch holds neither a reply to this request nor an error.")
    complaint = complaint_of({"error": error}, redact)
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


def left_out(batch: ProviderBatch) -> ModelError:
    """Why a batch that is over says nothing of a request."""
    match batch.status:
        case "failed":
            complaint = batch.complaint or Complaint()
            words = f"the batch {batch.id} failed: {complaint.words or 'it says no more'}"
            status = 429 if batch.crowded_out else 400
            return failure(status, {}, Complaint(words, complaint.codes))
        case "expired":
            return _expired()
        case "cancelled":
            return _cancelled()
        case _:
            return ModelError("reply", f"The batch {batch.id} says nothing of this request.")


def _expired() -> ModelError:
    return ModelError("server", "The provider did not get to this request in its time window.")


def _cancelled() -> ModelError:
    return ModelError(
        "request", "The batch was cancelled at the provider: run it again to send what is missing."
    )
