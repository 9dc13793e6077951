"""The tables of the store, and the changes since their first version.

A new table is created in older stores too; a new column or index needs a line in `CHANGES`.
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


def _table(name: str, *parts: Column[Any] | Index, **options: Any) -> Table:  # noqa: ANN401
    return Table(name, metadata, *parts, **options)


TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens")
"""Columns of ``entries`` and ``replies`` that hold what a `Usage` has, in its order."""

version = _table("pearl_version", Column("version_num", Text, primary_key=True))
"""One row: the version of the tables, a key of `CHANGES`."""

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
        # As text too: a database may refuse to parse a row as JSON, for instance with a NUL in it.
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
"""The SQL that brings the tables from the version before to each version, in order; by database
where it differs."""

HEAD = max(CHANGES)
"""The version of these tables."""

runs = _table(
    "runs",
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
"""One row for each run. ``scope`` is that of its replies, empty for the common cache. ``resumed``
is when it was last resumed, or null; ``earlier_seconds`` is how long it had run before that."""

entries = _table(
    "entries",
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
"""The journal. ``value`` holds decisions; the text of a call is in ``replies``.

``started`` is in seconds since 1970, and null in journals that are older than the column. ``model``
is empty where the run has only one model, which its head names.
"""

PLAIN = ("kind", "call_key", "attempt", "status", "seconds", "kept", "started", "model")
"""Columns of ``entries`` that have the value of an `Entry`'s attribute of the same name."""

replies = _table(
    "replies",
    *_columns(Text, "scope key", primary_key=True),
    *_columns(Text, "text"),
    *_columns(Boolean, "complete"),
    *_columns(BigInteger, " ".join(TOKENS)),
    *_columns(Text, "model identity"),
    *_columns(Float, "created"),
)
"""The cache: a call's key decides its reply."""

leases = _table(
    "leases",
    *_columns(Text, "scope key", primary_key=True),
    *_columns(Text, "owner"),
    *_columns(Float, "expires"),
    # A row comes and goes with each call: where its key is the table, a commit writes less.
    sqlite_with_rowid=False,
)
"""Calls that a process is making, so that no other process makes them too."""

rows = _table(
    "rows",
    *_columns(Text, "run id", primary_key=True),
    *_columns(Integer, "position"),
    *_columns(Text, "row_key status result"),
    Column("correct", Boolean),
    Column("score", Float),
    Index("rows_by_position", "run", "position"),
    Index("rows_by_result", "run", "status", "correct", "score"),
)
"""A job's results, a row for each task. ``correct`` and ``score`` are null where the answer was not
judged. In rows that are older than the column, ``score`` is null too, and ``correct`` counts."""

tags = _table(
    "tags",
    *_columns(Text, "run tag", primary_key=True),
    Index("tags_by_tag", "tag", "run"),
)
"""Tags that people give runs to find them again."""

ledger = _table(
    "ledger",
    *_columns(Text, "run owner", primary_key=True),
    *_columns(Float, "seen"),
    *_columns(BigInteger, "tokens cost reserved_tokens reserved_cost"),
    Index("ledger_by_owner", "owner"),
)
"""What each process of a run has spent and reserved, cost in millionths of a dollar."""

review_plans = _table(
    "review_plans",
    *_columns(Text, "id", primary_key=True),
    *_columns(Text, "kind name question text"),
    *_columns(Float, "added"),
)
"""Plans that people judge. ``id`` is a hash of where a plan came from and of its text."""

review_people = _table(
    "review_people",
    *_columns(Integer, "id", primary_key=True, autoincrement=False),
    *_columns(Text, "name token"),
    *_columns(Float, "added"),
    Index("review_people_by_token", "token", unique=True),
)
"""Annotators, counted from 1. ``token`` is the hash of the token with which one signs in."""

review_sessions = _table(
    "review_sessions",
    *_columns(Text, "key", primary_key=True),
    *_columns(Integer, "person"),
    *_columns(Float, "started"),
)
"""Sessions of annotators in browsers. ``key`` is the hash of the browser's cookie."""

review_shares = _table(
    "review_shares",
    *_columns(Text, "plan", primary_key=True),
    *_columns(Integer, "person", primary_key=True, autoincrement=False),
)
"""The plans that each annotator is asked to judge."""

review_verdicts = _table(
    "review_verdicts",
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
"""All verdicts. ``seen`` says whether the annotator had been shown another's verdict before."""

review_mappings = _table(
    "review_mappings",
    _serial(),
    *_columns(Text, "plan option chosen"),
    *_columns(Integer, "person"),
    *_columns(Float, "given"),
)
"""The option to which each person mapped a run's answer, and the model's; the latest counts."""

review_versions = _table(
    "review_versions",
    *_columns(Text, "plan", primary_key=True),
    *_columns(Integer, "number", primary_key=True, autoincrement=False),
    *_columns(Integer, "person"),
    *_columns(Text, "text file demo"),
    *_columns(Float, "made"),
)
"""Edited plans, counted from 2: the plan itself is version 1."""
