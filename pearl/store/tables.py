"""The tables of the store. Their history is in `migrations/`."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
)

metadata = MetaData()
_serial = BigInteger().with_variant(Integer, "sqlite")

runs = Table(
    "runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("started", Float, nullable=False),
    Column("seen", Float, nullable=False),
    Column("ended", Float),
    Column("head", Text, nullable=False),
    Index("runs_by_fingerprint", "fingerprint"),
)
"""One row a run. ``scope`` is where its replies are kept: empty for all runs' common cache."""

entries = Table(
    "entries",
    metadata,
    Column("id", _serial, primary_key=True, autoincrement=True),
    Column("run", Text, nullable=False),
    Column("item", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("value", Text),
    Column("call_key", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("cause", Text, nullable=False),
    Column("prompt_tokens", BigInteger, nullable=False),
    Column("completion_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("kept", Boolean, nullable=False),
    Column("started", Float),
    Index("entries_by_item", "run", "item", "id"),
)
"""The journal. A call's text is in ``replies`` and not twice; ``value`` holds decisions.

``started`` is in seconds since 1970, and null in journals of before there was such a column.
"""

replies = Table(
    "replies",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("text", Text, nullable=False),
    Column("complete", Boolean, nullable=False),
    Column("prompt_tokens", BigInteger, nullable=False),
    Column("completion_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("model", Text, nullable=False),
    Column("identity", Text, nullable=False),
    Column("created", Float, nullable=False),
)
"""The cache: a call's key decides its reply."""

leases = Table(
    "leases",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("expires", Float, nullable=False),
)
"""Calls that a process is making now, so that no other makes them as well."""

rows = Table(
    "rows",
    metadata,
    Column("run", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("row_key", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("result", Text, nullable=False),
    Index("rows_by_position", "run", "position"),
)
"""A batch's results, one row a question."""

ledger = Table(
    "ledger",
    metadata,
    Column("run", Text, primary_key=True),
    Column("owner", Text, primary_key=True),
    Column("seen", Float, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("cost", BigInteger, nullable=False),
    Column("reserved_tokens", BigInteger, nullable=False),
    Column("reserved_cost", BigInteger, nullable=False),
)
"""What each process of a run has spent and reserved, cost in millionths of a dollar."""

review_plans = Table(
    "review_plans",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("question", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("added", Float, nullable=False),
)
"""Plans that people judge. ``id`` is a hash of where a plan came from and of its text."""

review_people = Table(
    "review_people",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("token", Text, nullable=False),
    Column("added", Float, nullable=False),
    Index("review_people_by_token", "token", unique=True),
)
"""Annotators, counted from 1. ``token`` is the hash of what lets one in."""

review_sessions = Table(
    "review_sessions",
    metadata,
    Column("key", Text, primary_key=True),
    Column("person", Integer, nullable=False),
    Column("started", Float, nullable=False),
)
"""Who is in, in which browser. ``key`` is the hash of the browser's cookie."""

review_shares = Table(
    "review_shares",
    metadata,
    Column("plan", Text, primary_key=True),
    Column("person", Integer, primary_key=True, autoincrement=False),
)
"""Who is asked to judge which plan."""

review_verdicts = Table(
    "review_verdicts",
    metadata,
    Column("id", _serial, primary_key=True, autoincrement=True),
    Column("plan", Text, nullable=False),
    Column("person", Integer, nullable=False),
    Column("correct", Text, nullable=False),
    Column("confidence", Integer, nullable=False),
    Column("categories", Text, nullable=False),
    Column("words", Text, nullable=False),
    Column("seen", Boolean, nullable=False),
    Column("given", Float, nullable=False),
    Index("review_verdicts_by_plan", "plan", "person", "id"),
)
"""Every verdict that was ever given. ``seen``: its giver had been shown another's before."""

review_versions = Table(
    "review_versions",
    metadata,
    Column("plan", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("person", Integer, nullable=False),
    Column("text", Text, nullable=False),
    Column("file", Text, nullable=False),
    Column("demo", Text, nullable=False),
    Column("made", Float, nullable=False),
)
"""Edited plans, counted from 2: the plan itself is version 1."""
