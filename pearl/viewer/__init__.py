"""Runs as pages: what a journal says, put together for a reader, in one file."""
