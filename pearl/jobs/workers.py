"""The tasks of a job, the workers that do them many at a time, and the file their rows go to."""

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

CUT = 10
"""Rows one after another that failed as a reply was cut at its limit, from which on no other is
begun."""


@dataclass
class JobProgress:
    """How far a job is.

    Args:
        run: the run's name.
        total: how many tasks there are.
        prices: what models' tokens cost.
        model: the name of the run's model, where it has one.
        before: tasks that had ended when the run was resumed.
        done: rows with an answer, those of before it was resumed among them.
        failed: rows without one, by reason.
        first_failure: why the first of them has none, in a line.
        running: tasks under way.
        right: answers that are the gold ones.
        judged: questions whose right answer is known.
        fallbacks: questions asked directly, as no plan was accepted, answered or not.
        limited: of these in this go, those whose last plan ``PEARL_MAX_TOKENS`` cut off.
        ungrounded: answers that no passage of the document stands behind.
        unnamed: answers that name no option, where there are some.
        guessed: answers that the offline reader picked by words alone.
        cut_in_a_row: rows since the last that came to anything else that a cut reply failed.
        models: what calls of this go came to, by model.
        started: when this go began, on the monotonic clock.
        listener: told of each change; None where nobody watches, as on a cluster's worker.
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
    fallbacks: int = 0
    limited: int = 0
    ungrounded: int = 0
    unnamed: int = 0
    guessed: int = 0
    cut_in_a_row: int = 0
    models: dict[str, Totals] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    listener: Callable[[JobProgress], None] | None = field(default=None, repr=False)

    def tell(self) -> None:
        """Tell who watches that something has changed."""
        if self.listener:
            self.listener(self)

    @property
    def finished(self) -> int:
        """Rows that have come to an end."""
        return self.done + self.failed.total()

    @property
    def calls(self) -> Totals:
        """What all calls of this go came to."""
        return replace(sum(self.models.values(), Totals()), models=self.models)

    @property
    def cost(self) -> int | None:
        """What this go has cost, in millionths of a dollar; None where prices are not known, or an
        endpoint that has one does not say what its calls took."""
        return self.calls.cost(self.prices, self.model)

    @property
    def seconds(self) -> float:
        """How long this go has taken."""
        return time.monotonic() - self.started

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at the pace so far; None before anything is done."""
        fresh = self.finished - self.before
        return self.seconds / fresh * (self.total - self.finished) if fresh else None

    def count_row(self, row: dict[str, Any]) -> None:
        """Add a task's row."""
        reason = "" if row["status"] == "answered" else row["error"]["reason"]
        self.cut_in_a_row = self.cut_in_a_row + 1 if reason == "length" else 0
        if not reason:
            self.done += 1
        else:
            self.failed[reason] += 1
            self.first_failure = self.first_failure or row["error"]["message"]
        # An evaluation has numbers for what a batch says in words.
        result = row.get("result", row)
        marks = result.get("measures", result)
        self.fallbacks += result.get("fallback") is True
        self.ungrounded += marks.get("grounded") == 0
        self.unnamed += names_no_option(row)
        self.guessed += marks.get("guessed") == 1
        if row.get("correct") is not None:
            self.judged += 1
            self.right += row["correct"]

    def count_calls(self, entries: Sequence[Entry]) -> None:
        """Add the lines of a journal."""
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
        """Add the calls that a worker elsewhere has made."""
        for model, totals in other.models.items():
            self._count(model, totals)

    def _count(self, model: str, calls: Totals) -> None:
        self.models[model] = self.models.get(model, Totals()) + calls

    def table(self) -> Iterator[tuple[str, str]]:
        """The result for a person, a line a fact."""
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
        yield "calls", f"{calls.made:,} made, {calls.kept:,} cached, {calls.failed:,} failed"
        yield "tokens", spent.in_words(calls.made)
        yield "cost", calls.cost_in_words(self.prices, self.model)
        yield "time", f"{self.seconds:,.1f} s"

    def as_object(self) -> dict[str, Any]:
        """The same as JSON data; money in dollars."""
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


def names_no_option(row: Mapping[str, Any]) -> bool:
    """Whether the answer of a row names none of the options there were, in a batch or in an
    evaluation."""
    option, result = row.get("option"), row.get("result")
    if isinstance(result, dict):
        given = row.get("status") == "answered" and result.get("options")
        return bool(given) and result.get("answer") is None
    return isinstance(option, dict) and option.get("letter") == ""


T = TypeVar("T", covariant=True)


@dataclass(frozen=True, slots=True)
class Task(Generic[T]):
    """One piece. It travels to workers on other machines, so it is pickled.

    Args:
        id: what its row is filed under; unique in its job.
        position: where its row stands among the others, counted from 0.
        key: the hash of what is asked: where it is the same, a kept row holds.
        group: pieces of one group, as questions on one document, go together.
        payload: what is asked.
    """

    id: str
    position: int
    key: str
    group: str
    payload: T


class Tasks(Protocol[T]):
    """All pieces of a job."""

    @property
    def ids(self) -> Sequence[str]:
        """Every piece's, in the order to do them in."""
        ...

    def read(self, ids: Sequence[str]) -> Iterator[Task[T]]:
        """The tasks of some ids, in their order, each when it is drawn.

        Raises:
            InputError: one cannot be read any more.
        """
        ...


Work: TypeAlias = Callable[[Task[Any], Session], Awaitable[dict[str, Any]]]
"""What is done with a piece, in a session of its own; it is pickled, too.

It gives the piece's row, as JSON data: ``id``; ``status``, which is ``answered`` or ``failed``;
where it failed ``error`` with ``reason`` and ``message``; ``correct`` where that is known; and what
else the work found.
"""


class TaskList(Generic[T]):
    """Tasks that fit the memory."""

    def __init__(self, tasks: Sequence[Task[T]]) -> None:
        self._tasks = {task.id: task for task in tasks}

    @property
    def ids(self) -> Sequence[str]:
        """Every task's, in order."""
        return tuple(self._tasks)

    def read(self, ids: Sequence[str]) -> Iterator[Task[T]]:
        """The tasks of some ids, in their order."""
        return (self._tasks[name] for name in ids)


def line_of(row: dict[str, Any]) -> str:
    """A row as a line of JSON."""
    text = json.dumps(row, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode("utf-8") + "\n"


class RowsFile:
    """A file of rows that always holds whole lines.

    It is put in place as a whole when it is opened and when it is closed; in
    between, rows are appended as they come. Meanwhile it is locked.

    Args:
        path: the file.
        lines: what it starts with.

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
            InputError: it cannot be written, or is another by now, which is left as it is.
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
        # To open a pipe would wait for its other end.
        return
    # What cannot be opened is told by who writes it.
    with suppress(OSError), open(path, "rb") as file:
        if lock(file) is False:
            raise InputError(_LOCKED.format(path))


def internal_error(error: BaseException) -> ModelError:
    """An error of Pearl's own, as what one task failed with: a line, and no reason to stop.

    It says where, and not the error's own words, which may hold anything, a key among it.
    """
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    last = traceback.extract_tb(error.__traceback__)[-1:]
    at = "".join(f" in {Path(frame.filename).name}:{frame.lineno}" for frame in last)
    message = f"Pearl itself failed ({type(error).__name__}{at}): please report it."
    return ModelError("internal", message)


def failure_of(error: Exception) -> dict[str, Any]:
    """What a row says of why it has no answer, as JSON data: reason, message, and lost steps.

    The reason is the model's where it has one, else whose fault it is.
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
        return failure_of(internal_error(error))
    return {"reason": reason, "message": str(error), "steps": [asdict(step) for step in steps]}


Fail: TypeAlias = "Callable[[Task[Any], Exception], dict[str, Any]]"
"""The row of a piece that was never brought to an end, given why."""


def failed_row(task: Task[Any], error: Exception) -> dict[str, Any]:
    """What every failed row has."""
    return {"id": task.id, "status": "failed", "error": failure_of(error)}


def put_row(store: Store, run: str, task: Task[Any], row: dict[str, Any]) -> None:
    """Keep a task's row in a run."""
    store.put_row(
        {
            "run": run,
            "id": task.id,
            "position": task.position,
            "row_key": task.key,
            "status": row["status"],
            "result": storable(line_of(row).rstrip("\n")),
            "correct": row.get("correct"),
            "score": score_of(row),
        }
    )


@dataclass(frozen=True)
class WorkerPool:
    """Coroutines that do tasks side by side.

    Args:
        work: what is done with each task.
        context: how much fits a prompt.
        engine: the model in its layers.
        store: where runs and replies are kept.
        run: the run's name.
        size: tasks under way at a time, at most.
        progress: how far the job is.
    """

    work: Work
    context: Context
    engine: Engine
    store: Store
    run: str
    size: int
    progress: JobProgress

    async def do_all(
        self, tasks: Iterator[Task[Any]], done: Callable[[dict[str, Any]], None]
    ) -> None:
        """Do tasks, until there are none, or nothing more can be asked.

        What keeps the rest from being done, as a document that cannot be read
        any more, stops the engine; calls under way, which are paid for, still
        come to their end.

        Args:
            tasks: drawn as there is room.
            done: told each row, which is in the store by then.
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
                    group.create_task(self._worker(shared, done))
                    # In step all would work, then all wait: each starts a round of the loop later.
                    await asyncio.sleep(0)
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        await self.store.flush()

    async def _worker(
        self, tasks: Iterator[Task[Any]], done: Callable[[dict[str, Any]], None]
    ) -> None:
        progress, engine = self.progress, self.engine
        planning = planning_context(engine.model, self.context)
        for task in tasks:
            if engine.stopped:
                return
            progress.running += 1
            progress.tell()
            journal = self.store.journal(self.run, task.id)
            try:
                session = Session(engine, journal, self.context, planning=planning)
                row = await self.work(task, session)
            except Exception as error:  # noqa: BLE001 - whatever it is, others go on
                row = failed_row(task, internal_error(error))
            finally:
                progress.running -= 1
                tell("question", journal, engine.model, task.id)
                progress.count_calls(journal.entries)
            if row["status"] == "failed" and engine.stopped:
                # It did not fail: it was not let finish, and is tried again in the next go.
                return
            put_row(self.store, self.run, task, row)
            await self.store.flush()
            try:
                done(row)
            except InputError as error:
                engine.stop(ModelError("input", str(error)))
            progress.count_row(row)
            if progress.cut_in_a_row >= CUT:
                engine.stop(ModelError("length", f"{row['error']['message']} {SAME}"))
            progress.tell()
