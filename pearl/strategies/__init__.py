"""The published systems, as ways to write steps of one plan language."""
