"""Tools that a run may use: declared in ``tools.toml``, called within limits, masked."""
