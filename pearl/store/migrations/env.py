"""What Alembic runs: the migrations, on the connection that `database.py` hands in."""

from __future__ import annotations

from alembic import context

from pearl.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table="pearl_version",
)
context.run_migrations()
