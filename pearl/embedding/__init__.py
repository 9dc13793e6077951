"""Texts as vectors, so that two of them can be told to ask the same."""

from pearl.embedding.base import Embed, Embedded, Endpoint, cosine
from pearl.embedding.choose import choose_embedding
from pearl.embedding.tfidf import TfIdf

__all__ = ["Embed", "Embedded", "Endpoint", "TfIdf", "choose_embedding", "cosine"]
