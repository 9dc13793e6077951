"""Alembic's scripts. A new one names the last as its ``down_revision``."""
