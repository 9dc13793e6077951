"""Runs, journals and the cache, in SQLite or PostgreSQL."""
