"""CommaQA: agents, decompositions that talk to them, worlds made from a schema, learning."""
