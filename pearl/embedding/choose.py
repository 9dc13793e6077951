"""From the environment to an embedding."""

from __future__ import annotations

import os

from pearl.embedding.base import Embed
from pearl.embedding.tfidf import TfIdf


def choose_embedding() -> Embed:
    """The embedding a person means.

    ``PEARL_EMBEDDING_MODEL`` names a model of the endpoint that
    ``OPENAI_BASE_URL`` and ``OPENAI_API_KEY`` tell; without it, term weights.

    Raises:
        InputError: a setting is missing or wrong; the message says which.
    """
    name = os.environ.get("PEARL_EMBEDDING_MODEL", "").strip()
    if not name:
        return TfIdf()
    from pearl.embedding.openai import OpenAIEmbedding
    from pearl.llm.choose import read_settings

    return OpenAIEmbedding(name, read_settings(name))
