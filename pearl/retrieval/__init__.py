"""Passages that bear on a query: of one document, or of a corpus too large to read."""
