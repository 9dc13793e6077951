"""Runs, their journals, the cache, leases, a batch's rows, and the ledger."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _text(name: str, *, primary_key: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False, primary_key=primary_key)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=False)


def _usage() -> list[sa.Column[int]]:
    return [_number(f"{kind}_tokens") for kind in ("prompt", "completion", "cached")]


def _time(name: str, *, nullable: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Float, nullable=nullable)


def upgrade() -> None:
    """Make the first tables."""
    op.create_table(
        "runs",
        _text("id", primary_key=True),
        *map(_text, ("kind", "fingerprint", "scope", "owner")),
        _time("started"),
        _time("seen"),
        _time("ended", nullable=True),
        _text("head"),
    )
    op.create_index("runs_by_fingerprint", "runs", ["fingerprint"])
    op.create_table(
        "entries",
        sa.Column("id", _SERIAL, primary_key=True, autoincrement=True),
        *map(_text, ("run", "item", "kind", "path")),
        sa.Column("value", sa.Text),
        _text("call_key"),
        sa.Column("attempt", sa.Integer, nullable=False),
        _text("status"),
        _text("cause"),
        *_usage(),
        _time("seconds"),
        sa.Column("kept", sa.Boolean, nullable=False),
    )
    op.create_index("entries_by_item", "entries", ["run", "item", "id"])
    op.create_table(
        "replies",
        _text("scope", primary_key=True),
        _text("key", primary_key=True),
        _text("text"),
        sa.Column("complete", sa.Boolean, nullable=False),
        *_usage(),
        *map(_text, ("model", "identity")),
        _time("created"),
    )
    op.create_table(
        "leases",
        _text("scope", primary_key=True),
        _text("key", primary_key=True),
        _text("owner"),
        _time("expires"),
    )
    op.create_table(
        "rows",
        _text("run", primary_key=True),
        _text("id", primary_key=True),
        sa.Column("position", sa.Integer, nullable=False),
        *map(_text, ("row_key", "status", "result")),
    )
    op.create_index("rows_by_position", "rows", ["run", "position"])
    op.create_table(
        "ledger",
        _text("run", primary_key=True),
        _text("owner", primary_key=True),
        _time("seen"),
        *map(_number, ("tokens", "cost", "reserved_tokens", "reserved_cost")),
    )
