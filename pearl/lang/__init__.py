"""The plan language: types, grammar, texts to plans and back, libraries, builtins, graph."""
