"""The plan language: types, grammar, parser, printer, libraries, builtins, and what needs what."""
