"""The tasks of a job, the workers that do them concurrently, and the file their rows go to."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from pearl.lang.errors import InputError
from pearl.lang.output_files import lock, replacing, unwritable
from pearl.models.base import ModelError, Usage
from pearl.models.middleware.circuit_breaker import SAME
from pearl.models.middleware.stack import Engine
from pearl.models.tokens import NO_PRICES, Prices
from pearl.runtime.calls import LIMITED, Entry
from pearl.runtime.context import Context
from pearl.runtime.executor import StepFailure
from pearl.runtime.loop import RunError
from pearl.runtime.telemetry import tell
from pearl.session import Session, planning_context
from pearl.store.history import score_of
from pearl.store.store import Store, storable
from pearl.store.totals import Totals

_write = json.JSONEncoder(ensure_ascii=False).encode

CUT = 10
"""After so many rows in a row that failed because a reply was cut at its token limit, the job is
stopped."""


@dataclass
class JobProgress:
    """How far a job is.

    Args:
        run: the run's name.
        total: how many tasks there are.
        prices: the price table.
        model: the name of the run's model, where it has one.
        before: tasks that were finished when the run was resumed.
        done: rows with an answer, including those from before the run was resumed.
        failed: rows without an answer, by reason.
        first_failure: the message of the first failed row.
        running: tasks under way.
        right: answers that match the gold answer.
        judged: questions with a gold answer.
        remarks: how many rows, answered or not, have each of the remarks of `remarks_on`.
        limited: questions since the run was resumed that no plan was accepted for, and whose last
            plan ``PEARL_MAX_TOKENS`` cut off.
        cut_in_a_row: how many of the latest rows failed in a row because a reply was cut.
        models: totals of the calls since the run was started or resumed, by model.
        started: when it was started or resumed, in seconds on the monotonic clock.
        listener: called at each change; None on a cluster's worker, for example.
    """

    run: str
    total: int
    prices: Prices = field(default=NO_PRICES, repr=False)
    model: str = ""
    before: int = 0
    done: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    first_failure: str = ""
    running: int = 0
    right: int = 0
    judged: int = 0
    remarks: Counter[str] = field(default_factory=Counter)
    limited: int = 0
    cut_in_a_row: int = 0
    models: dict[str, Totals] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    listener: Callable[[JobProgress], None] | None = field(default=None, repr=False)

    def tell(self) -> None:
        """Call the listener, as something has changed."""
        if self.listener:
            self.listener(self)

    @property
    def finished(self) -> int:
        """How many tasks are finished, answered or failed."""
        return self.done + self.failed.total()

    @property
    def calls(self) -> Totals:
        """Totals of all calls since the run was started or resumed."""
        return replace(sum(self.models.values(), Totals()), models=self.models)

    @property
    def cost(self) -> int | None:
        """The cost of these calls in millionths of a dollar; None where a price is not known, or an
        endpoint does not report the tokens of its calls."""
        return self.calls.cost(self.prices, self.model)

    @property
    def seconds(self) -> float:
        """The seconds since the run was started or resumed."""
        return time.monotonic() - self.started

    @property
    def seconds_left(self) -> float | None:
        """The seconds that the rest takes at the pace so far; None before a task is finished."""
        fresh = self.finished - self.before
        return self.seconds / fresh * (self.total - self.finished) if fresh else None

    @property
    def fallbacks(self) -> int:
        """How many rows were asked directly, as no plan was accepted."""
        return self.remarks["no plan"]

    @property
    def ungrounded(self) -> int:
        """How many answers have no supporting passage of the document."""
        return self.remarks["no evidence"]

    @property
    def unnamed(self) -> int:
        """How many answers name no option, where there are options."""
        return self.remarks["no option"]

    @property
    def guessed(self) -> int:
        """How many answers the offline reader picked by words alone."""
        return self.remarks["picked by words"]

    def count_row(self, row: dict[str, Any]) -> None:
        """Add a task's row."""
        reason = "" if row["status"] == "answered" else row["error"]["reason"]
        self.cut_in_a_row = self.cut_in_a_row + 1 if reason == "length" else 0
        if not reason:
            self.done += 1
        else:
            self.failed[reason] += 1
            self.first_failure = self.first_failure or row["error"]["message"]
        self.remarks.update(remarks_on(row))
        if row.get("correct") is not None:
            self.judged += 1
            self.right += row["correct"]

    def count_calls(self, entries: Sequence[Entry]) -> None:
        """Add the calls in the entries of a journal."""
        models: dict[str, list[Entry]] = {}
        for entry in entries:
            if entry.kind == "call":
                models.setdefault(entry.model or self.model, []).append(entry)
            elif entry.path.endswith(LIMITED):
                self.limited += 1
        for model, calls in models.items():
            sent = [entry for entry in calls if not entry.kept]
            made = sum(entry.status == "done" for entry in sent)
            kept = sum(entry.kept and entry.status == "done" for entry in calls)
            spent = sum((entry.usage for entry in sent), Usage())
            self._count(model, Totals(made, kept, len(sent) - made, spent))

    def add_calls(self, other: JobProgress) -> None:
        """Add the calls that a worker on another machine has made."""
        for model, totals in other.models.items():
            self._count(model, totals)

    def _count(self, model: str, calls: Totals) -> None:
        self.models[model] = self.models.get(model, Totals()) + calls

    def table(self) -> Iterator[tuple[str, str]]:
        """The result for people, one line for each fact."""
        failed = "".join(f", {count} {reason}" for reason, count in self.failed.most_common())
        yield "answered", f"{self.done:,} of {self.total:,}"
        if self.failed:
            yield "failed", f"{self.failed.total():,} ({failed.removeprefix(', ')})"
        if self.fallbacks:
            cut = f": PEARL_MAX_TOKENS cut {self.limited:,} off" if self.limited else ""
            yield "fallback", f"{self.fallbacks:,} asked directly, as no plan was accepted{cut}"
        if self.ungrounded:
            yield "evidence", f"none for {self.ungrounded:,}: see grounded in the answers"
        if self.unnamed:
            yield "no option", f"named by {self.unnamed:,}: none is nearer than the others"
        if self.guessed:
            yield "guessed", f"{self.guessed:,} picked by words alone: see guessed in the answers"
        if self.judged:
            share = 100 * self.right / self.judged
            yield "right", f"{self.right:,} of {self.judged:,} with a gold answer ({share:.1f} %)"
        calls, spent = self.calls, self.calls.spent
        since = ", since the run was resumed" if self.before else ""
        made = f"{calls.made:,} made, {calls.kept:,} cached, {calls.failed:,} failed"
        yield "calls", f"{made}{since}"
        counted = since if spent.is_reported(calls.made) else ""
        yield "tokens", f"{spent.in_words(calls.made)}{counted}"
        priced = "" if self.cost is None else since
        yield "cost", f"{calls.cost_in_words(self.prices, self.model)}{priced}"
        yield "time", f"{self.seconds:,.1f} s"

    def as_object(self) -> dict[str, Any]:
        """The result as JSON data; money in dollars."""
        cost, calls = self.cost, self.calls
        return {
            "run": self.run,
            "questions": self.total,
            "answered": self.done,
            "failed": dict(self.failed),
            "right": self.right,
            "judged": self.judged,
            "fallbacks": self.fallbacks,
            "ungrounded": self.ungrounded,
            "unnamed": self.unnamed,
            "guessed": self.guessed,
            "calls": {"made": calls.made, "kept": calls.kept, "in_vain": calls.failed},
            **asdict(calls.spent),
            "cost": None if cost is None else cost / 1e6,
            "seconds": round(self.seconds, 3),
        }


_REMARKS = {
    "no evidence": ("grounded", False),
    "no plan": ("fallback", True),
    "picked by words": ("guessed", True),
}
"""Remarks on an answer, each with the key and value that it is made for."""


def remarks_on(row: Mapping[str, Any]) -> list[str]:
    """Remarks on a row of a batch or an evaluation: that its answer has no evidence in the
    document, came without a plan, as none was accepted, was picked by words alone by the offline
    reader, or names none of the options."""
    # An evaluation's row has them as numbers in its measures; a user's own row may have anything.
    result, option = row.get("result"), row.get("option")
    inner = result if isinstance(result, dict) else {}
    measures = inner["measures"] if isinstance(inner.get("measures"), dict) else {}
    values = {**measures, **inner, **row}
    remarks = [name for name, (key, value) in _REMARKS.items() if values.get(key) == value]
    if isinstance(result, dict):
        had_options = row.get("status") == "answered" and bool(result.get("options"))
        unnamed = had_options and result.get("answer") is None
    else:
        unnamed = isinstance(option, dict) and option.get("letter") == ""
    return remarks + ["no option"] * unnamed


T = TypeVar("T", covariant=True)


@dataclass(frozen=True, slots=True)
class Task(Generic[T]):
    """A task of a job. It must be picklable, as it may be sent to workers on other machines.

    Args:
        id: the id of its row; unique in its job.
        position: the place of its row among the others, from 0.
        key: the hash of what is asked; a stored row holds as long as it is the same.
        group: tasks of the same group, such as questions about one document, are done together.
        payload: what is asked.
    """

    id: str
    position: int
    key: str
    group: str
    payload: T


class Tasks(Protocol[T]):
    """All tasks of a job."""

    @property
    def ids(self) -> Sequence[str]:
        """The ids of all tasks, in the order to do them in."""
        ...

    def read(self, ids: Sequence[str]) -> Iterator[Task[T]]:
        """The tasks of these ids, in their order, each read when it is needed.

        Raises:
            InputError: a task can no longer be read.
        """
        ...


Work: TypeAlias = Callable[[Task[Any], Session], Awaitable[dict[str, Any]]]
"""Does a task, in a session of its own, and returns its row; it must be picklable, too.

A row is JSON data: ``id``; ``status``, which is ``answered`` or ``failed``; ``error`` with
``reason`` and ``message`` where it failed; ``correct`` where that is known; and other results.
"""


class TaskList(Generic[T]):
    """Tasks that are all held in memory."""

    def __init__(self, tasks: Sequence[Task[T]]) -> None:
        self._tasks = {task.id: task for task in tasks}

    @property
    def ids(self) -> Sequence[str]:
        """The ids of all tasks, in order."""
        return tuple(self._tasks)

    def read(self, ids: Sequence[str]) -> Iterator[Task[T]]:
        """The tasks of these ids, in their order."""
        return (self._tasks[name] for name in ids)


def line_of(row: dict[str, Any]) -> str:
    """A row as a line of JSON."""
    return storable(_write(row)) + "\n"


class RowsFile:
    """A file of rows that always holds whole lines.

    It is replaced atomically when it is opened and when it is closed; in
    between, it is locked, and rows are appended as they come.

    Args:
        path: the file.
        lines: the lines that it starts with.

    Raises:
        InputError: it cannot be written, or another job writes it.
    """

    def __init__(self, path: str, lines: Iterable[str]) -> None:
        self._path = Path(path)
        refuse_locked(path)
        self._replace(lines)
        self._file = self._path.open("ab", buffering=0)
        if lock(self._file) is False:
            raise InputError(_LOCKED.format(path))

    def add(self, row: dict[str, Any]) -> None:
        """Append a row; when this returns, the operating system has it.

        Raises:
            InputError: it cannot be written; the file is as it was.
        """
        line = line_of(row).encode()
        size = self._file.seek(0, os.SEEK_END)
        try:
            if self._file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(size)
            raise unwritable(self._path, error) from None

    def close(self, lines: Iterable[str]) -> None:
        """Replace the file by all lines in their final order.

        Raises:
            InputError: it cannot be written, or another file has taken its place, which is left
                unchanged.
        """
        with suppress(OSError):
            if not os.path.samestat(os.stat(self._path), os.fstat(self._file.fileno())):
                self._file.close()
                raise InputError(
                    f"{self._path} was replaced meanwhile, and is left as it is: the rows are in "
                    "the store, and the same command with another -o writes them."
                )
        self._replace(lines)
        self._file.close()

    def _replace(self, lines: Iterable[str]) -> None:
        try:
            with replacing(self._path) as file:
                file.writelines(line.encode() for line in lines)
        except OSError as error:
            raise unwritable(self._path, error) from None


_LOCKED = "{} is being written by another job: let that end, or name another file."


def refuse_locked(path: str) -> None:
    """Make sure that no other job writes a file of rows.

    Raises:
        InputError: one does.
    """
    if not os.path.isfile(path):
        # Opening a pipe would wait for its other end.
        return
    # A file that cannot be opened is reported when it is written.
    with suppress(OSError), open(path, "rb") as file:
        if lock(file) is False:
            raise InputError(_LOCKED.format(path))


def failure_of(error: BaseException) -> dict[str, Any]:
    """The ``error`` of a failed row, as JSON data: reason, message, and the steps that failed.

    An error that is none of Pearl's own is a bug. Its message says where it happened, without the
    exception's text, which may hold an API key.
    """
    steps: Sequence[StepFailure] = ()
    if isinstance(error, ModelError):
        reason = error.reason
    elif isinstance(error, InputError):
        reason = "input"
    elif isinstance(error, RunError):
        steps = error.failures
        reason = "plan" if error.diagnostics else steps[0].reason if steps else "reply"
    else:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        last = traceback.extract_tb(error.__traceback__)[-1:]
        at = "".join(f" in {Path(frame.filename).name}:{frame.lineno}" for frame in last)
        message = f"Pearl itself failed ({type(error).__name__}{at}): please report it."
        return {"reason": "internal", "message": message, "steps": []}
    return {"reason": reason, "message": str(error), "steps": [asdict(step) for step in steps]}


Fail: TypeAlias = "Callable[[Task[Any], Exception], dict[str, Any]]"
"""Makes the row of a task that could not be finished, given the error."""


def failed_row(task: Task[Any], error: Exception) -> dict[str, Any]:
    """A failed row with the fields that every job has."""
    return {"id": task.id, "status": "failed", "error": failure_of(error)}


def put_row(store: Store, run: str, task: Task[Any], row: dict[str, Any]) -> None:
    """Store the row of a task in a run."""
    store.put_row(
        {
            "run": run,
            "id": task.id,
            "position": task.position,
            "row_key": task.key,
            "status": row["status"],
            "result": line_of(row).rstrip("\n"),
            "correct": row.get("correct"),
            "score": score_of(row),
        }
    )


@dataclass(frozen=True)
class WorkerPool:
    """Coroutines that do tasks concurrently.

    Args:
        work: does a task.
        context: how much fits a prompt.
        engine: the model in its layers.
        store: where runs and replies are kept.
        size: the most tasks under way at the same time.
        progress: how far the job's run is.
    """

    work: Work
    context: Context
    engine: Engine
    store: Store
    size: int
    progress: JobProgress

    async def do_all(
        self, tasks: Iterator[Task[Any]], done: Callable[[dict[str, Any]], None]
    ) -> None:
        """Do tasks, until there are none left or no more calls can be made.

        A problem that concerns all tasks, such as a document that can no
        longer be read, stops the engine; calls under way, which are paid for,
        are still finished.

        Args:
            tasks: the tasks, each taken when a worker is free.
            done: called with each row, which is in the store by then.
        """

        def draw() -> Iterator[Task[Any]]:
            try:
                yield from tasks
            except InputError as error:
                self.engine.stop(ModelError("input", str(error)))

        shared = draw()
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self.size):
                    group.create_task(self._worker(shared, done, group))
                    # Workers start one loop iteration apart, so that they do not all wait together.
                    await asyncio.sleep(0)
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        await self.store.flush()

    async def _worker(
        self,
        tasks: Iterator[Task[Any]],
        done: Callable[[dict[str, Any]], None],
        group: asyncio.TaskGroup,
    ) -> None:
        progress, engine = self.progress, self.engine
        planning = planning_context(engine.model, self.context)
        finishing: asyncio.Task[None] | None = None
        for task in tasks:
            if engine.stopped:
                return
            progress.running += 1
            progress.tell()
            journal = self.store.journal(progress.run, task.id)
            try:
                session = Session(engine, journal, self.context, planning=planning)
                row = await self.work(task, session)
            except Exception as error:  # noqa: BLE001 - whatever it is, others go on
                row = failed_row(task, error)
            finally:
                progress.running -= 1
                tell("question", journal, engine.model, task.id)
                progress.count_calls(journal.entries)
            if row["status"] == "failed" and engine.stopped:
                # The task was interrupted; it is tried again when the run is resumed.
                return
            put_row(self.store, progress.run, task, row)
            progress.count_row(row)
            if progress.cut_in_a_row >= CUT:
                engine.stop(ModelError("length", f"{row['error']['message']} {SAME}"))
            if finishing:
                # A task without a call would not wait for anything, and the loop would do no more.
                await finishing
            # The next task starts meanwhile, so that one commit has this row and its first calls.
            finishing = group.create_task(self._finish(row, done))

    async def _finish(self, row: dict[str, Any], done: Callable[[dict[str, Any]], None]) -> None:
        await self.store.flush()
        try:
            done(row)
        except InputError as error:
            self.engine.stop(ModelError("input", str(error)))
        self.progress.tell()
