"""When each call began, and when each decision was made."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0001"


def upgrade() -> None:
    """Add the column; what earlier journals did not write down stays unknown."""
    op.add_column("entries", sa.Column("started", sa.Float, nullable=True))
