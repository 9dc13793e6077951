"""Questions of several hops without a model: forms of questions, BM25, names and dates."""
