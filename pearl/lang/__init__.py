"""The plan language: its types, its grammar, texts to plans and back, libraries, builtins, and what depends on what."""
