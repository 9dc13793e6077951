"""Models behind one shape: any OpenAI-compatible endpoint, its Batch API, the offline reader, recordings."""
