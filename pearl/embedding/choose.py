"""From the environment to an embedding."""

from __future__ import annotations

import os

from pearl.embedding.base import Embed
from pearl.embedding.tfidf import TfIdf


def choose_embedding() -> Embed:
    """The embedding a person means.

    ``PEARL_EMBEDDING_MODEL`` names a model of the endpoint that
    ``OPENAI_BASE_URL`` and ``OPENAI_API_KEY`` tell; without it, term weights.
    Those settings are read when it is first used: whoever embeds nothing needs
    none.
    """
    name = os.environ.get("PEARL_EMBEDDING_MODEL", "").strip()
    if not name:
        return TfIdf()
    from pearl.embedding.openai import OpenAIEmbedding

    return OpenAIEmbedding(name)
