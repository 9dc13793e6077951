"""Reads a store: its runs, their tags, journals, replies and rows."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import fsum
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import and_, case, delete, exists, func, or_, select, tuple_

from pearl.lang.errors import InputError
from pearl.lang.text import one_line
from pearl.models.base import Reply
from pearl.runtime.calls import Entry
from pearl.store.database import is_dead, reading, starts_with, writing
from pearl.store.statements import insert_into
from pearl.store.store import storable
from pearl.store.tables import PLAIN, entries, replies, rows, runs, tags
from pearl.store.totals import of_method, usage_of

if TYPE_CHECKING:
    from sqlalchemy import Column, Connection, Engine, Row


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as the store has it.

    Args:
        name: its name.
        kind: the command that made it, as ``ask`` or ``batch``.
        fingerprint: identifies the work, so that the run can be resumed.
        scope: the scope of its replies in the cache.
        started: when it began, in seconds since 1970.
        ended: when it ended, likewise; None where it was interrupted or still runs.
        alive: whether it still runs.
        head: what was run on what: the question, the document, the model and so on.
        seconds: how long it ran, without pauses before it was resumed; None where ``ended`` is.
        failed: whether its question has no answer; for a job, see its rows.
    """

    name: str
    kind: str
    fingerprint: str
    scope: str
    started: float
    ended: float | None
    alive: bool
    head: dict[str, Any]
    seconds: float | None
    failed: bool

    @classmethod
    def of(cls, row: Row[Any], now: float) -> RunRow:
        """The run of a row of `_RUNS`."""
        alive = row.ended is None and not is_dead(row.owner, row.seen, now)
        names = (row.id, row.kind, row.fingerprint, row.scope)
        seconds = None
        if row.ended is not None:
            begun = row.started if row.resumed is None else row.resumed
            seconds = row.earlier_seconds + max(0.0, row.ended - begun)
        times = (row.started, row.ended, alive)
        return cls(*names, *times, json.loads(row.head), seconds, row.failed)

    @property
    def has_rows(self) -> bool:
        """Whether it has many tasks, each with a row and a journal of its own."""
        return "count" in self.head

    @property
    def facts(self) -> dict[str, Any]:
        """What was run and how, for a page: the head, and for an evaluation what its report adds,
        such as the metric."""
        about = dict(self.head.get("evaluation", {}).get("about", ()))
        own = {key: value for key, value in self.head.items() if not isinstance(value, dict)}
        return {**own, **{key: text for key, text in about.items() if key != "data"}}

    @property
    def tasks(self) -> int:
        """How many rows it will have; an evaluation has one for each method and question."""
        methods = str(self.head.get("methods", "")) if self.kind == "eval" else ""
        return int(self.head["count"]) * len(methods.split(", "))

    def unfinished(self, done: int) -> str:
        """The progress of a job with ``done`` rows, in words; empty for one that has ended."""
        if not self.has_rows or self.ended is not None:
            return ""
        nouns = "answers" if self.kind == "eval" else "questions"
        state = "still runs" if self.alive else "stopped on the way"
        return f"{state}, with {done:,} of {self.tasks:,} {nouns} done"

    def no_question(self, item: str) -> InputError:
        """The error for a question that the run does not have."""
        method = str(self.head.get("methods", "")).partition(",")[0] if self.kind == "eval" else ""
        named = f": one of an evaluation is METHOD/ID, as {method}/{item}" if method else ""
        so_far = " so far" if self.has_rows and self.ended is None else ""
        return InputError(f"The run {self.name} has no question {item}{so_far}{named}.")

    @property
    def status(self) -> str:
        """One of `STATUSES`."""
        if self.ended is None:
            return "running" if self.alive else "stopped"
        return "failed" if self.failed else "ended"


STATUSES = ("running", "ended", "failed", "stopped")
"""The statuses of a run."""

_LAST = select(entries.c.path).where(entries.c.run == runs.c.id, entries.c.item == "")
_LAST = _LAST.where(entries.c.path.in_(("run", "failed"))).order_by(entries.c.id.desc()).limit(1)
_FAILED = func.coalesce(_LAST.correlate(runs).scalar_subquery(), "") == "failed"
"""Whether a run, when it was last started, ended without an answer to its question."""

_RUNS = select(runs, _FAILED.label("failed"))
"""Runs, as `RunRow.of` takes them."""


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs to list; a field that is empty or None does not restrict them.

    Args:
        words: words, each of which is in the run's name, head, tags or rows, in upper or lower
            case.
        kind: the command that made it.
        tag: one of its tags.
        status: one of `STATUSES`.
        least: the least mean score of its judged rows.
        most: the greatest mean score of its judged rows.
        before: start and name of a run: only runs that started before it are listed.
    """

    words: tuple[str, ...] = ()
    kind: str = ""
    tag: str = ""
    status: str = ""
    least: float | None = None
    most: float | None = None
    before: tuple[float, str] | None = None


def list_runs(
    engine: Engine, now: float, limit: int | None = None, filters: RunFilter = RunFilter()
) -> list[RunRow]:
    """The runs that pass the filters, the latest first."""
    query = _RUNS.order_by(runs.c.started.desc(), runs.c.id.desc())
    for word in filters.words:
        # Escaped as in JSON, as heads and rows are JSON.
        written = json.dumps(word, ensure_ascii=False)[1:-1]
        called = exists().where(
            tags.c.run == runs.c.id, tags.c.tag.icontains(word, autoescape=True)
        )
        heads = (column.icontains(written, autoescape=True) for column in (runs.c.head, runs.c.id))
        row = exists().where(
            rows.c.run == runs.c.id, rows.c.result.icontains(written, autoescape=True)
        )
        query = query.where(or_(*heads, called, row))
    if filters.kind:
        query = query.where(runs.c.kind == filters.kind)
    if filters.tag:
        query = query.where(runs.c.id.in_(select(tags.c.run).where(tags.c.tag == filters.tag)))
    if filters.status:
        over = filters.status in ("ended", "failed")
        query = query.where(runs.c.ended.is_not(None) if over else runs.c.ended.is_(None))
    if filters.status == "failed":
        query = query.where(_FAILED)
    accuracy = select(func.avg(_SCORE)).where(rows.c.run == runs.c.id).scalar_subquery()
    if filters.least is not None:
        query = query.where(accuracy >= filters.least - _SHOWN)
    if filters.most is not None:
        query = query.where(accuracy <= filters.most + _SHOWN)
    if filters.before:
        query = query.where(tuple_(runs.c.started, runs.c.id) < tuple_(*filters.before))
    # Some statuses are not known to the database, so that the limit applies after it is read.
    unsure = filters.status in ("running", "ended", "stopped")
    with reading(engine) as connection:
        query = query.limit(None if unsure else limit)
        records = connection.execution_options(yield_per=100).execute(query)
        every = (RunRow.of(row, now) for row in records)
        return list(islice((run for run in every if filters.status in ("", run.status)), limit))


_SHOWN = 0.0005
"""Half of the last decimal of a score on pages, so that a filter finds what they show."""

_SCORE = func.coalesce(rows.c.score, case((rows.c.correct, 1.0), (~rows.c.correct, 0.0)))
"""The score of a row in the database, as `score_of` has it."""


def score_of(row: Mapping[str, Any]) -> float | None:
    """The score of a job's row, from 0 to 1; None where the answer was not judged."""
    if row.get("correct") is None:
        return None
    return float((row.get("result") or {}).get("score", row["correct"]))


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Counts of a job's rows so far.

    Args:
        rows: the number of rows.
        answered: how many have an answer.
        judged: how many have a score.
        right: how many have a score of 1.
        scores: the sum of the scores.
    """

    rows: int
    answered: int
    judged: int
    right: int
    scores: float

    @classmethod
    def of(cls, every: Collection[Mapping[str, Any]]) -> RowCounts:
        """The counts of some rows."""
        scores = [score for row in every if (score := score_of(row)) is not None]
        answered = sum(row.get("status") == "answered" for row in every)
        return cls(len(every), answered, len(scores), scores.count(1), fsum(scores))

    @property
    def mean(self) -> float | None:
        """The mean score, which is the share of right rows if no score is partial; None where no
        row has a score."""
        return self.scores / self.judged if self.judged else None

    @property
    def in_parts(self) -> bool:
        """Whether some score is neither 0 nor 1."""
        return self.scores > self.right

    @property
    def verdict(self) -> str:
        """The counts behind the mean score, in words."""
        right = f"{self.right:,} of {self.judged:,}"
        return f"mean score, {right} fully right" if self.in_parts else f"{right} right"


def count_rows(engine: Engine, names: Sequence[str], method: str = "") -> dict[str, RowCounts]:
    """The counts of some jobs' rows, by the jobs' names, without jobs that have no rows; or of an
    evaluation's rows of one method."""
    sums = (rows.c.status == "answered", rows.c.correct.is_not(None), rows.c.correct)
    counts = (func.sum(case((condition, 1), else_=0)) for condition in sums)
    scores = func.coalesce(func.sum(_SCORE), 0.0)
    query = select(rows.c.run, func.count(), *counts, scores).group_by(rows.c.run)
    with reading(engine) as connection:
        query = query.where(rows.c.run.in_(names), of_method(engine, rows.c.id, method))
        sums_by_run = connection.execute(query)
        return {
            name: RowCounts(count, int(answered), int(judged), int(right), float(total))
            for name, count, answered, judged, right, total in sums_by_run
        }


LONGEST_TAG = 60
"""The most characters of a tag."""


def as_tags(names: Iterable[str]) -> list[str]:
    """Tags as they are stored.

    Raises:
        InputError: one is empty or too long.
    """
    labels = [one_line(storable(name)) for name in names]
    if wrong := [name for name in labels if not 0 < len(name) <= LONGEST_TAG]:
        raise InputError(f'"{wrong[0][:80]}" is no tag: write 1 to {LONGEST_TAG} characters.')
    return labels


def tag_run(engine: Engine, run: str, names: Iterable[str], *, off: bool = False) -> None:
    """Add tags to a run, or remove them with ``off``; `as_tags` raises `InputError`."""
    labels = as_tags(names)
    with writing(engine) as connection:
        if off:
            connection.execute(delete(tags).where(tags.c.run == run, tags.c.tag.in_(labels)))
        elif labels:
            adding = insert_into(tags, connection.dialect.name).on_conflict_do_nothing()
            connection.execute(adding, [{"run": run, "tag": label} for label in labels])


def read_tags(engine: Engine, names: Sequence[str]) -> dict[str, list[str]]:
    """The tags of some runs, by the runs' names."""
    by_run: dict[str, list[str]] = {name: [] for name in names}
    with reading(engine) as connection:
        query = select(tags).where(tags.c.run.in_(names)).order_by(tags.c.tag)
        for run, tag in connection.execute(query):
            by_run[run].append(tag)
    return by_run


def in_use(engine: Engine) -> tuple[list[str], list[str]]:
    """The kinds of runs that the store has, and the tags, each in order."""
    with reading(engine) as connection:
        return [*_each(connection, runs.c.kind)], [*_each(connection, tags.c.tag)]


def _each(connection: Connection, column: Column[str]) -> Iterator[str]:
    """The distinct values of a column in order, each found by the column's index."""
    last = ""
    while (value := connection.scalar(select(func.min(column)).where(column > last))) is not None:
        yield value
        last = value


def latest(engine: Engine, fingerprint: str, now: float) -> RunRow | None:
    """The latest run of a work, by its fingerprint, that does not run now."""
    query = _RUNS.where(runs.c.fingerprint == fingerprint).order_by(runs.c.started.desc())
    with reading(engine) as connection:
        candidates = (RunRow.of(row, now) for row in connection.execute(query))
        return next((run for run in candidates if run.ended is not None or not run.alive), None)


def latest_writer(engine: Engine, output: str) -> str:
    """The name of the batch that was last started or resumed with this file of answers; empty where
    there is none."""
    path = os.path.abspath(output)
    # The same file may be named by another path.
    named = json.dumps(os.path.basename(path), ensure_ascii=False)[1:]
    query = select(runs.c.id, runs.c.head).where(runs.c.kind == "batch")
    query = query.where(runs.c.head.contains(named, autoescape=True))
    query = query.order_by(func.coalesce(runs.c.resumed, runs.c.started).desc())
    with reading(engine) as connection:
        for name, head in connection.execute(query):
            if os.path.abspath(json.loads(head).get("output", "")) == path:
                return str(name)
    return ""


def find_run(engine: Engine, name: str, place: str, now: float) -> RunRow:
    """A run by its name, the start of its name, ``last``, or else a tag that no other run has;
    ``place`` names the store in messages.

    Raises:
        InputError: no such run, or several.
    """
    last = list_runs(engine, now, 1)
    if not last:
        raise InputError(f"There are no runs in {place}: make one with pearl ask, run or batch.")
    if name == "last":
        return last[0]
    starts = starts_with(engine, runs.c.id, name)
    tagged = runs.c.id.in_(select(tags.c.run).where(tags.c.tag == name))
    matches: list[RunRow] = []
    with reading(engine) as connection:
        for where in (runs.c.id == name, starts, tagged) if name else ():
            query = _RUNS.where(where).order_by(runs.c.id.desc()).limit(3)
            matches = matches or [RunRow.of(row, now) for row in connection.execute(query)]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise InputError(f"No run is named {name}: the last one is {last[0].name}.")
    names = ", ".join(run.name for run in matches)
    raise InputError(f"{name} names several runs ({names} …): write more of the name of one.")


def read_entries(engine: Engine, run: RunRow, item: str | None = "") -> Iterator[Entry]:
    """A run's journal in order; of a batch that of one question, or with None those of all."""
    # A call without a reply must not fall out of the journal.
    reply = and_(replies.c.key == entries.c.call_key, replies.c.scope == run.scope)
    query = (
        select(entries, replies.c.text)
        .outerjoin(replies, reply)
        .where(entries.c.run == run.name)
        .order_by(entries.c.id)
    )
    if item is not None:
        query = query.where(entries.c.item == item)
    with reading(engine) as connection:
        for row in connection.execution_options(yield_per=500).execute(query):
            value = row.text if row.kind == "call" else json.loads(row.value)
            usage = usage_of(row)
            value = value if row.status == "done" else None
            plain: dict[str, Any] = {name: getattr(row, name) for name in PLAIN}
            yield Entry(path=row.path, value=value, cause=row.cause, usage=usage, **plain)


def since_last_start(journal: list[Entry]) -> list[Entry]:
    """The entries of the last time that a question was started, if it was started several times."""
    starts = [at for at, entry in enumerate(journal) if entry.path == "run"]
    return journal[starts[-1] :] if starts else journal


def read_reply(engine: Engine, key: str) -> Reply | None:
    """The reply to a call in the common cache, unless it was cut; None where there is none."""
    where = and_(replies.c.scope == "", replies.c.key == key, replies.c.complete)
    with reading(engine) as connection:
        row = connection.execute(select(replies).where(where)).first()
    return Reply(row.text, usage_of(row), kept=True) if row else None


def read_rows(
    engine: Engine, run: str, only: Sequence[str] | None = None, status: str = ""
) -> Iterator[tuple[str, dict[str, Any]]]:
    """A batch's results in the order of its questions, as `read_row_texts` reads them: the
    question's id, and the row."""
    texts = read_row_texts(engine, run, only, status)
    return ((id, json.loads(text)) for id, text in texts)


def read_row_texts(
    engine: Engine, run: str, only: Sequence[str] | None = None, status: str = ""
) -> Iterator[tuple[str, str]]:
    """As `read_rows`, each row as the JSON text that is stored.

    Args:
        engine: the store's database.
        run: the name of the batch.
        only: the ids of the questions to read, about a hundred at most; None for all.
        status: the status of the rows to read; empty for any.
    """
    query = select(rows.c.id, rows.c.result).where(rows.c.run == run).order_by(rows.c.position)
    if only is not None:
        query = query.where(rows.c.id.in_(only))
    if status:
        query = query.where(rows.c.status == status)
    with reading(engine) as connection:
        for row in connection.execution_options(yield_per=200).execute(query):
            yield row.id, row.result


def read_identities(engine: Engine, run: RunRow, keys: Iterable[str]) -> list[str]:
    """The identities of the models that replied to some calls of a run, each once."""
    identities: set[str] = set()
    unique = sorted(set(keys))
    query = select(replies.c.identity).where(replies.c.scope == run.scope).distinct()
    with reading(engine) as connection:
        # Databases limit the parameters of a statement.
        for at in range(0, len(unique), 400):
            some = query.where(replies.c.key.in_(unique[at : at + 400]))
            identities.update(connection.execute(some).scalars())
    return sorted(identities)


def read_beside(engine: Engine, run: str, id: str) -> tuple[str, str]:
    """The ids of the rows before and after one, in the order of the questions; empty for none."""
    place = select(rows.c.position).where(rows.c.run == run, rows.c.id == id).scalar_subquery()
    at, own = rows.c.position, select(rows.c.id).where(rows.c.run == run).limit(1)
    with reading(engine) as connection:
        before = connection.scalar(own.where(at < place).order_by(at.desc()))
        behind = connection.scalar(own.where(at > place).order_by(at))
    return before or "", behind or ""


def files_of(engine: Engine, run: RunRow) -> set[str]:
    """Texts that may be paths of a run's files: all that its head names, and its documents."""
    texts = [
        value for key, value in run.head.items() if key not in ("question", "options", "model")
    ]
    named = {re.sub(r" \(\d+ characters, sha256 [0-9a-f]{64}\)$", "", str(text)) for text in texts}
    named |= set(str(run.head.get("library", "")).split(", "))
    if run.has_rows:
        home = str(run.head.get("documents", ""))
        documents = {str(row.get("document", "")) for _, row in read_rows(engine, run.name)}
        named |= {os.path.join(home, document) for document in documents if document}
    return named


class RowKey(NamedTuple):
    """A question's row in a batch: the hash of what was asked, its position, and its status."""

    key: str
    position: int
    status: str


def read_row_keys(engine: Engine, run: str) -> dict[str, RowKey]:
    """The keys, positions and statuses of a batch's rows, by the questions' ids."""
    query = select(rows.c.id, rows.c.row_key, rows.c.position, rows.c.status)
    with reading(engine) as connection:
        keyed = connection.execute(query.where(rows.c.run == run))
        return {row.id: RowKey(row.row_key, row.position, row.status) for row in keyed}
