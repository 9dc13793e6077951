"""Runs, journals and the cache, in SQLite or PostgreSQL."""

from pearl.store.database import HOME, address, is_there
from pearl.store.store import Store, open_store

__all__ = ["HOME", "Store", "address", "is_there", "open_store"]
