"""What is known of each batch, on disk: a process may end at any moment, and the next one goes on.

Every file is written under another name and put in place when it is whole, so
what has a file's name is never half of it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, Literal, get_args

from pearl.llm.model import ModelError
from pearl.values import canonical_json

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
