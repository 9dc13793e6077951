"""What people judge, who they are, and what they say: the tables of ``pearl review``."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _text(name: str, *, primary_key: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False, primary_key=primary_key)


def _whole(name: str, *, primary_key: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=False, primary_key=primary_key, autoincrement=False)


def _time(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Float, nullable=False)


def _serial() -> sa.Column[int]:
    return sa.Column("id", _SERIAL, primary_key=True, autoincrement=True)


def upgrade() -> None:
    """Make the tables of the review."""
    op.create_table(
        "review_plans",
        _text("id", primary_key=True),
        *map(_text, ("kind", "name", "question", "text")),
        _time("added"),
    )
    op.create_table(
        "review_people",
        _whole("id", primary_key=True),
        *map(_text, ("name", "token")),
        _time("added"),
    )
    op.create_index("review_people_by_token", "review_people", ["token"], unique=True)
    op.create_table(
        "review_sessions", _text("key", primary_key=True), _whole("person"), _time("started")
    )
    op.create_table(
        "review_shares", _text("plan", primary_key=True), _whole("person", primary_key=True)
    )
    op.create_table(
        "review_verdicts",
        _serial(),
        _text("plan"),
        _whole("person"),
        _text("correct"),
        _whole("confidence"),
        *map(_text, ("categories", "words")),
        sa.Column("seen", sa.Boolean, nullable=False),
        _time("given"),
    )
    op.create_index("review_verdicts_by_plan", "review_verdicts", ["plan", "person", "id"])
    op.create_table(
        "review_versions",
        _text("plan", primary_key=True),
        _whole("number", primary_key=True),
        _whole("person"),
        *map(_text, ("text", "file", "demo")),
        _time("made"),
    )
