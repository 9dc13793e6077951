"""CommaQA (Khot et al., 2022): agents, decompositions, worlds from a schema, search and learning."""
