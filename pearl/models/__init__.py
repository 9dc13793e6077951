"""Models behind one shape: OpenAI-compatible endpoints, their Batch API, offline, recorded."""
