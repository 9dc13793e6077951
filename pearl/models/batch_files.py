"""What is known of each batch, on disk: a process may end at any moment, and the next one goes on.

Every file is written under another name and put in place when it is whole, so
what has a file's name is never half of it.

What came of each request of a batch, read with no trust: a bad line costs no other.

A batch as the provider shows it, read with no trust.

What a caller settles, and what a caller is told.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

from pearl.lang.values import canonical_json
from pearl.models.base import ModelError, Reply
from pearl.models.openai import reply_of
from pearl.models.transport import Complaint, Hidden, complaint_of, failure

Stage = Literal["written", "uploaded", "submitting", "submitted", "ended"]
"""How far a batch has come. ``submitting`` is recorded before the call, ``submitted`` after it:
between the two nobody but the provider knows."""

OPENING = '{"custom_id":'
"""What each line of an input file opens with."""


@dataclass(frozen=True, slots=True)
class State:
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


class Folder:
    """Where the batches of one or several models are kept, for one process at a time.

    Args:
        path: of the folder; it is made where it is missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock: BinaryIO | None = None

    def open(self) -> None:
        """Take the folder for this process.

        Raises:
            ModelError: another has it, or it cannot be written.
        """
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

    def close(self) -> None:
        """Leave the folder to others."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def input(self, number: int) -> Path:
        """The file of a batch's requests."""
        return self._path / f"{number:04}.jsonl"

    def output(self, number: int) -> Path:
        """The file of a batch's answers."""
        return self._path / f"{number:04}.output.jsonl"

    def errors(self, number: int) -> Path:
        """The file of a batch's failures."""
        return self._path / f"{number:04}.error.jsonl"

    def states(self) -> list[State]:
        """Every batch that is known, by number.

        Raises:
            ModelError: a file cannot be read.
        """
        with self._disk():
            names = sorted(path.stem for path in self._path.glob("*.json"))
        return sorted(
            (self.state(int(name)) for name in names if name.isdecimal()),
            key=lambda state: state.number,
        )

    def state(self, number: int) -> State:
        """What is known of a batch.

        Raises:
            ModelError: its file cannot be read.
        """
        path = self._state(number)
        with self._disk():
            text = path.read_bytes()
        try:
            data = json.loads(text)
            state = State(**{**data, "past": tuple(data.get("past", ()))})
        except (ValueError, TypeError, AttributeError, RecursionError):
            raise _damaged(path) from None
        if state.number != number or state.stage not in get_args(Stage):
            raise _damaged(path)
        return state

    def save(self, state: State) -> State:
        """Record what is known of a batch.

        Raises:
            ModelError: it cannot be written.
        """
        with self.writing(self._state(state.number)) as file:
            file.write(canonical_json(asdict(state)).encode() + b"\n")
        return state

    def write(self, identity: str, keys: Sequence[str], lines: Iterable[bytes]) -> State:
        """Begin a batch.

        Args:
            identity: of the model that is asked.
            keys: the requests', in order.
            lines: the requests, likewise.

        Raises:
            ModelError: it cannot be written.
        """
        number = max((state.number for state in self.states()), default=0) + 1
        with self._disk():
            # Of a batch whose state a person has removed.
            self.output(number).unlink(missing_ok=True)
            self.errors(number).unlink(missing_ok=True)
        with self.writing(self.input(number)) as file:
            file.writelines(lines)
        return self.save(State(number, identity, len(keys), _hash(keys)))

    def keys(self, state: State) -> list[str]:
        """The keys of a batch's requests, in order.

        Raises:
            ModelError: the file is not the one that was written.
        """
        path = self.input(state.number)
        decoder = json.JSONDecoder()
        with self._disk(), path.open("rb") as file:
            try:
                keys = [decoder.raw_decode(line.decode(), len(OPENING))[0] for line in file]
                same = _hash(keys) == state.keys
            except (ValueError, TypeError, RecursionError):
                same = False
        if not same:
            raise ModelError(
                "store",
                f"{path} is not as it was written: put it back, or remove "
                f"{self._state(state.number).name} to send its requests anew.",
            )
        return keys

    @contextmanager
    def writing(self, path: Path) -> Iterator[BinaryIO]:
        """A file that takes its name when the block ends well.

        Raises:
            ModelError: it cannot be written.
        """
        part = path.with_name(f".{path.name}.part")
        with self._disk():
            try:
                with part.open("wb") as file:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(part, path)
            finally:
                part.unlink(missing_ok=True)

    def _state(self, number: int) -> Path:
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


def _damaged(path: Path) -> ModelError:
    return ModelError(
        "store",
        f"{path} cannot be read: put it back, or remove it to send its requests anew.",
    )


ENDS = frozenset({"completed", "failed", "expired", "cancelled"})
"""What the provider calls a batch that is over."""

NO_ROOM = "token_limit_exceeded"
"""The provider's code where batches under way leave no room for another."""

_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,200}")


@dataclass(frozen=True, slots=True)
class Seen:
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
    def over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.status in ENDS

    @property
    def crowded_out(self) -> bool:
        """Whether it failed for want of room, and for nothing in it."""
        complaint = self.complaint
        return self.status == "failed" and complaint is not None and NO_ROOM in complaint.codes


def read_seen(data: dict[str, Any], hidden: Hidden) -> Seen:
    """A batch.

    Args:
        data: what the provider sent.
        hidden: takes the key out of a text.

    Raises:
        ModelError: it is no batch.
    """
    name, status = named(data.get("id")), named(data.get("status"))
    if not name or not status:
        raise unread()
    counts = data.get("request_counts")
    counts = counts if isinstance(counts, dict) else {}
    return Seen(
        name,
        status,
        named(data.get("input_file_id")),
        named(data.get("output_file_id")),
        named(data.get("error_file_id")),
        _whole(counts.get("completed")),
        _whole(counts.get("failed")),
        _complaint(data.get("errors"), hidden),
    )


def named(text: object) -> str:
    """A name or a word of the provider's, which goes into addresses; empty where it is none."""
    return text if isinstance(text, str) and _NAME.fullmatch(text) else ""


def unread() -> ModelError:
    """What is raised where an answer is none of a Batch API's."""
    return ModelError(
        "reply", "The endpoint does not answer as a Batch API does: check OPENAI_BASE_URL."
    )


def _complaint(errors: object, hidden: Hidden) -> Complaint | None:
    found = errors.get("data") if isinstance(errors, dict) else errors
    if not isinstance(found, list) or not found or not isinstance(found[0], dict):
        return None
    said = complaint_of(found[0], hidden)
    line = _whole(found[0].get("line"))
    return Complaint(f"line {line}: {said.words}" if line else said.words, said.codes)


def _whole(number: object) -> int:
    return number if type(number) is int and number > 0 else 0


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


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """How a batch stands, for a person who waits.

    Args:
        batch: its number in the folder.
        requests: how many it has.
        completed: those that were answered.
        failed: those that failed.
        status: the provider's word, ``submitting`` before it has one, or ``unreachable`` where it
            could not be asked.
    """

    batch: int
    requests: int
    completed: int
    failed: int
    status: str


@dataclass(frozen=True)
class Terms:
    """When batches go, and who is told of them.

    Args:
        quiet: seconds without a new request after which a batch goes.
        interval: seconds between two looks at a batch.
        most: requests of a batch at most.
        most_bytes: bytes of a batch's file at most.
        progress: is told how batches stand.
    """

    quiet: float
    interval: float
    most: int
    most_bytes: int
    progress: Callable[[BatchStatus], None]
