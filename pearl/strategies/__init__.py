"""Published methods as strategies, all of which write steps of the same plan language."""
