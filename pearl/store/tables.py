"""The tables of the store, and what changed in them since its first version.

A new table is made in older stores too; a new column or index needs a line in `CHANGES`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, MetaData, Table, Text

metadata = MetaData()


def _columns(kind: Any, names: str, **options: Any) -> Iterator[Column[Any]]:  # noqa: ANN401
    """Columns of one kind that are never null."""
    return (Column(name, kind, nullable=False, **options) for name in names.split())


def _serial() -> Column[int]:
    """A number that goes up with each row."""
    kind = BigInteger().with_variant(Integer, "sqlite")
    return Column("id", kind, primary_key=True, autoincrement=True)


TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens")
"""Columns of ``entries`` and ``replies`` that hold what a `Usage` has, in its order."""

version = Table("pearl_version", metadata, Column("version_num", Text, primary_key=True))
"""One row: at which version of `HEAD` the tables are."""

_FILL_SCORES = (
    "UPDATE rows SET score = CAST({} AS FLOAT) WHERE NOT correct AND result LIKE '%\"score\": %'"
)

CHANGES: Mapping[str, str | Mapping[str, str]] = MappingProxyType(
    {
        "0003": "ALTER TABLE entries ADD COLUMN started FLOAT",
        "0004": "",  # the tables of pearl review, which are new
        "0005": "ALTER TABLE entries ADD COLUMN model TEXT DEFAULT '' NOT NULL",
        "0006": "",  # the table of what people map answers to, which is new
        "0007": "CREATE INDEX IF NOT EXISTS runs_by_start ON runs (started, id)",
        "0008": "CREATE INDEX IF NOT EXISTS runs_by_owner ON runs (owner)",
        "0009": "CREATE INDEX IF NOT EXISTS ledger_by_owner ON ledger (owner)",
        "0010": "",  # the table of tags, which is new
        "0011": "ALTER TABLE rows ADD COLUMN correct BOOLEAN",
        # Quotes within a JSON text have a backslash before them: this is the row's own verdict.
        "0012": "UPDATE rows SET correct = (result LIKE '%\"correct\": true%') "
        "WHERE result LIKE '%\"correct\": true%' OR result LIKE '%\"correct\": false%'",
        "0013": "CREATE INDEX IF NOT EXISTS rows_by_result ON rows (run, status, correct)",
        "0014": "CREATE INDEX IF NOT EXISTS runs_by_kind ON runs (kind, started, id)",
        "0015": "CREATE INDEX IF NOT EXISTS runs_by_end ON runs (ended, started, id)",
        "0016": "ALTER TABLE rows ADD COLUMN score FLOAT",
        # Found likewise: a database may refuse to read a row as JSON, as for a NUL in its question.
        "0017": {
            "sqlite": _FILL_SCORES.format("substr(result, instr(result, '\"score\": ') + 9)"),
            "postgresql": _FILL_SCORES.format("substring(result from '\"score\": ([0-9.e-]+)')"),
        },
        "0018": "DROP INDEX IF EXISTS rows_by_result",
        "0019": "CREATE INDEX rows_by_result ON rows (run, status, correct, score)",
        "0020": "ALTER TABLE runs ADD COLUMN resumed FLOAT",
        "0021": "ALTER TABLE runs ADD COLUMN earlier_seconds FLOAT DEFAULT 0 NOT NULL",
    }
)
"""What brings the tables of the version before to a version; in order. Of each database's own where
they differ."""

HEAD = max(CHANGES)
"""The version of these tables."""

runs = Table(
    "runs",
    metadata,
    *_columns(Text, "id", primary_key=True),
    *_columns(Text, "kind fingerprint scope owner"),
    *_columns(Float, "started seen"),
    Column("ended", Float),
    *_columns(Text, "head"),
    Column("resumed", Float),
    *_columns(Float, "earlier_seconds", server_default="0"),
    Index("runs_by_fingerprint", "fingerprint"),
    Index("runs_by_start", "started", "id"),
    Index("runs_by_owner", "owner"),
    Index("runs_by_kind", "kind", "started", "id"),
    Index("runs_by_end", "ended", "started", "id"),
)
"""One row a run. ``scope`` is where its replies are kept: empty for all runs' common cache.
``resumed`` is when it was resumed last, null where it never was; ``earlier_seconds`` is how long
it had run before that.
"""

entries = Table(
    "entries",
    metadata,
    _serial(),
    *_columns(Text, "run item kind path"),
    Column("value", Text),
    *_columns(Text, "call_key"),
    *_columns(Integer, "attempt"),
    *_columns(Text, "status cause"),
    *_columns(BigInteger, " ".join(TOKENS)),
    *_columns(Float, "seconds"),
    *_columns(Boolean, "kept"),
    Column("started", Float),
    *_columns(Text, "model", server_default=""),
    Index("entries_by_item", "run", "item", "id"),
)
"""The journal. A call's text is in ``replies`` and not twice; ``value`` holds decisions.

``started`` is in seconds since 1970, and null in journals of before there was such a column.
``model`` is empty where the run has one model, which its head names.
"""

PLAIN = ("kind", "call_key", "attempt", "status", "seconds", "kept", "started", "model")
"""Columns of ``entries`` that hold what an `Entry` has under their name, as it is."""

replies = Table(
    "replies",
    metadata,
    *_columns(Text, "scope key", primary_key=True),
    *_columns(Text, "text"),
    *_columns(Boolean, "complete"),
    *_columns(BigInteger, " ".join(TOKENS)),
    *_columns(Text, "model identity"),
    *_columns(Float, "created"),
)
"""The cache: a call's key decides its reply."""

leases = Table(
    "leases",
    metadata,
    *_columns(Text, "scope key", primary_key=True),
    *_columns(Text, "owner"),
    *_columns(Float, "expires"),
    # A row comes and goes with each call: where its key is the table, a commit writes less.
    sqlite_with_rowid=False,
)
"""Calls that a process is making now, so that no other makes them as well."""

rows = Table(
    "rows",
    metadata,
    *_columns(Text, "run id", primary_key=True),
    *_columns(Integer, "position"),
    *_columns(Text, "row_key status result"),
    Column("correct", Boolean),
    Column("score", Float),
    Index("rows_by_position", "run", "position"),
    Index("rows_by_result", "run", "status", "correct", "score"),
)
"""A job's results, one row a task. ``correct`` is null where that is not known; ``score`` too, and
in rows of before there was such a column, whose score is what ``correct`` says."""

tags = Table(
    "tags",
    metadata,
    *_columns(Text, "run tag", primary_key=True),
    Index("tags_by_tag", "tag", "run"),
)
"""What people call runs, to find them again by it."""

ledger = Table(
    "ledger",
    metadata,
    *_columns(Text, "run owner", primary_key=True),
    *_columns(Float, "seen"),
    *_columns(BigInteger, "tokens cost reserved_tokens reserved_cost"),
    Index("ledger_by_owner", "owner"),
)
"""What each process of a run has spent and reserved, cost in millionths of a dollar."""

review_plans = Table(
    "review_plans",
    metadata,
    *_columns(Text, "id", primary_key=True),
    *_columns(Text, "kind name question text"),
    *_columns(Float, "added"),
)
"""Plans that people judge. ``id`` is a hash of where a plan came from and of its text."""

review_people = Table(
    "review_people",
    metadata,
    *_columns(Integer, "id", primary_key=True, autoincrement=False),
    *_columns(Text, "name token"),
    *_columns(Float, "added"),
    Index("review_people_by_token", "token", unique=True),
)
"""Annotators, counted from 1. ``token`` is the hash of what lets one in."""

review_sessions = Table(
    "review_sessions",
    metadata,
    *_columns(Text, "key", primary_key=True),
    *_columns(Integer, "person"),
    *_columns(Float, "started"),
)
"""Who is in, in which browser. ``key`` is the hash of the browser's cookie."""

review_shares = Table(
    "review_shares",
    metadata,
    *_columns(Text, "plan", primary_key=True),
    *_columns(Integer, "person", primary_key=True, autoincrement=False),
)
"""Who is asked to judge which plan."""

review_verdicts = Table(
    "review_verdicts",
    metadata,
    _serial(),
    *_columns(Text, "plan"),
    *_columns(Integer, "person"),
    *_columns(Text, "correct"),
    *_columns(Integer, "confidence"),
    *_columns(Text, "categories words"),
    *_columns(Boolean, "seen"),
    *_columns(Float, "given"),
    Index("review_verdicts_by_plan", "plan", "person", "id"),
)
"""Every verdict that was ever given. ``seen``: its giver had been shown another's before."""

review_mappings = Table(
    "review_mappings",
    metadata,
    _serial(),
    *_columns(Text, "plan option chosen"),
    *_columns(Integer, "person"),
    *_columns(Float, "given"),
)
"""Which option each person took a run's answer for, the last of each counts, and the model's."""

review_versions = Table(
    "review_versions",
    metadata,
    *_columns(Text, "plan", primary_key=True),
    *_columns(Integer, "number", primary_key=True, autoincrement=False),
    *_columns(Integer, "person"),
    *_columns(Text, "text file demo"),
    *_columns(Float, "made"),
)
"""Edited plans, counted from 2: the plan itself is version 1."""
