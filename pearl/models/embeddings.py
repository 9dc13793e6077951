"""Embeddings of texts, to find questions that ask the same: term weights, or an endpoint's.

Term weights need no model and no network, and are the same everywhere (Salton
and Buckley, "Term-weighting approaches in automatic text retrieval",
Information Processing & Management 24(5), 1988, section 3).
"""

from __future__ import annotations

import json
import math
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

from pearl.lang.errors import InputError
from pearl.lang.text import normalized
from pearl.lang.values import canonical_json
from pearl.models.base import ModelError, Usage
from pearl.models.endpoint_replies import usage_of
from pearl.models.transport import Transport, within

if TYPE_CHECKING:
    from pearl.models.settings import Settings


class Embed(Protocol):
    """Turns texts into vectors."""

    @property
    def identity(self) -> str:
        """Everything that decides the vectors; it holds no secret."""

    async def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each of one or more texts, in their order, all of one length.

        Only vectors of one call can be compared.

        Raises:
            ModelError: the endpoint gave no vectors.
        """


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """The cosine of the angle between two vectors; 0 where one of them has no length."""
    lengths = math.hypot(*first) * math.hypot(*second)
    if not lengths or not math.isfinite(lengths):
        return 0.0
    return sum(x * y for x, y in zip(first, second, strict=True)) / lengths


_WORD = re.compile(r"[^\W_]+")
_PIECE = 4
"""The number of characters of a piece of a word."""


@dataclass(frozen=True, slots=True)
class TfIdf:
    """Vectors over the terms of the texts that are compared.

    A text's terms are its words, its pairs of neighbouring words, and the
    pieces of four characters of each word with its ends marked. Pairs of words
    keep some of the order, and pieces bring *directed* near *director*. Case,
    accents and punctuation do not count; stop words do, as *before* and
    *after* ask different things.

    A term that occurs n times in a text, and in d of the N texts, weighs
    n × (1 + ln((1 + N) / (1 + d))), so that terms that tell the texts apart
    weigh most. The words' part and the pieces' part of a vector have length 1
    each, so that one changed word shows in both.
    """

    @property
    def identity(self) -> str:
        return "tf-idf, words and pieces of 4"

    async def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        by_word: list[Counter[str]] = []
        by_piece: list[Counter[str]] = []
        for text in texts:
            folded = normalized(text.casefold(), "NFKD")
            words = _WORD.findall("".join(c for c in folded if not unicodedata.combining(c)))
            by_word.append(Counter((*words, *(f"{a} {b}" for a, b in pairwise(words)))))
            marked = [f" {word} " for word in words]
            by_piece.append(
                Counter(
                    word[at : at + _PIECE]
                    for word in marked
                    for at in range(max(1, len(word) - _PIECE + 1))
                )
            )
        pairs = zip(_weighed(by_word), _weighed(by_piece), strict=True)
        return [words_part + pieces_part for words_part, pieces_part in pairs]


def _weighed(counts: Sequence[Counter[str]]) -> list[list[float]]:
    """A vector of length 1 for each text; of length 0 for one without terms."""
    holding = Counter(term for text in counts for term in text)
    rarity = {term: 1 + math.log((1 + len(counts)) / (1 + n)) for term, n in holding.items()}
    vectors = [[text[term] * weight for term, weight in rarity.items()] for text in counts]
    lengths = [math.hypot(*vector) or 1.0 for vector in vectors]
    return [
        [part / length for part in vector] for vector, length in zip(vectors, lengths, strict=True)
    ]


MOST_BYTES = 32 << 20
"""The most bytes of an answer: hundreds of vectors of thousands of numbers."""

LARGEST = 1e30
"""The limit of a vector's components; larger ones are refused, as they could not be stored."""


class OpenAIEmbedding:
    """A model of an endpoint, asked over ``/embeddings``.

    Nothing here is retried. The endpoint's address, the key and the timeout are
    read from the environment at the first use.

    Args:
        name: the model's name at the endpoint.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled without the key; a worker reads its own environment."""
        return OpenAIEmbedding, (self.name,)

    @property
    def identity(self) -> str:
        """As `Embed`; an `InputError` where the settings cannot be used."""
        return canonical_json([self.name, self._settings.base_url])

    @cached_property
    def _settings(self) -> Settings:
        from pearl.models.settings import read_settings

        try:
            return read_settings(self.name)
        except InputError as error:
            raise InputError(f"PEARL_EMBEDDING_MODEL: {error}") from None

    async def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        return (await self.ask(texts))[0]

    async def ask(self, texts: Sequence[str]) -> tuple[list[list[float]], Usage]:
        """As `Embed`, and the tokens that it took; an `InputError` where a setting is wrong."""
        settings = self._settings
        body = json.dumps({"model": self.name, "input": list(texts)}).encode()
        # Calls are far apart, so no connection is kept open between them.
        transport = Transport(settings)
        try:
            sent = transport.send("POST", "embeddings", body=body, most=MOST_BYTES)
            answer = await within(settings.timeout, sent, "embeddings")
        finally:
            await transport.close()
        try:
            data = json.loads(answer)
            rows = sorted(data["data"], key=lambda row: row["index"])
            vectors = [[float(part) for part in row["embedding"]] for row in rows]
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            vectors = []
        lengths = set(map(len, vectors))
        sane = all(abs(part) < LARGEST for vector in vectors for part in vector)
        if len(vectors) != len(texts) or len(lengths) != 1 or 0 in lengths or not sane:
            raise ModelError(
                "reply", "The endpoint's answer holds no embeddings: check PEARL_EMBEDDING_MODEL."
            )
        return vectors, usage_of(data.get("usage"))


def choose_embedding() -> Embed:
    """The embedding that the environment names.

    ``PEARL_EMBEDDING_MODEL`` names a model of the endpoint in
    ``OPENAI_BASE_URL`` and ``OPENAI_API_KEY``, which are read at the first use;
    without it, term weights are used.
    """
    name = os.environ.get("PEARL_EMBEDDING_MODEL", "").strip()
    return OpenAIEmbedding(name) if name else TfIdf()
