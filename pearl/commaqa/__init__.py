"""CommaQA (Khot et al., 2022): worlds and their agents, decompositions, search and learning."""
