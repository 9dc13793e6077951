"""An OpenAI-compatible endpoint's embeddings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pearl.embedding.base import Embedded
from pearl.llm import ModelError, Usage
from pearl.llm.failures import failure, read_complaint
from pearl.llm.transport import Transport
from pearl.source import InputError
from pearl.values import canonical_json

if TYPE_CHECKING:
    from pearl.llm.settings import Settings

OPENAI = "https://api.openai.com/v1"
"""The endpoint where none is named."""

LARGEST = 1e30
"""No part of a vector is as large: it would not be kept as it is."""


class OpenAIEmbedding:
    """A model of an endpoint, asked over ``/embeddings``.

    Nothing here tries again. Where the endpoint is, who pays, and how long a
    call may take, is read from the environment when it is first used.

    Args:
        name: the model's, as the endpoint knows it.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent to a worker without the key: it reads its own environment."""
        return OpenAIEmbedding, (self.name,)

    @property
    def identity(self) -> str:
        """As `Embed`.

        Raises:
            InputError: the settings cannot be used.
        """
        return canonical_json([self.name, self._settings.base_url])

    @cached_property
    def _settings(self) -> Settings:
        from pearl.llm.choose import read_settings

        try:
            return read_settings(self.name)
        except InputError as error:
            raise InputError(f"PEARL_EMBEDDING_MODEL: {error}") from None

    async def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        return (await self.ask(texts)).vectors

    async def ask(self, texts: Sequence[str]) -> Embedded:
        """As `Endpoint`.

        Raises:
            InputError: the settings cannot be used.
            ModelError: there are no vectors.
        """
        settings = self._settings
        body = json.dumps({"model": self.name, "input": list(texts)}).encode()
        # Splits are far apart: a connection kept open would only be one to forget.
        transport = Transport(settings.base_url or OPENAI, settings, ("embeddings",))
        limit = settings.timeout
        try:
            async with asyncio.timeout(limit):
                answer = await transport.post(body)
        except TimeoutError:
            raise ModelError("timeout", f"No embeddings within {limit:g} seconds.") from None
        finally:
            await transport.close()
        if answer.status >= 300:
            raise failure(answer.status, answer.headers, read_complaint(answer.body, self._hidden))
        return _embedded(answer.body, len(texts))

    def _hidden(self, text: str) -> str:
        secret = self._settings.api_key.get_secret_value()
        return text.replace(secret, "***") if secret else text


def _embedded(body: bytes, count: int) -> Embedded:
    """The vectors of an answer, in the order of what was asked."""
    usage = Usage()
    try:
        told = json.loads(body)
        rows = sorted(told["data"], key=lambda row: row["index"])
        found = [_vector(row["embedding"]) for row in rows]
        usage = _usage(told.get("usage"))
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        found = []
    if len(found) != count or len({len(one) for one in found}) != 1:
        raise ModelError(
            "reply", "The endpoint's answer holds no embeddings: check PEARL_EMBEDDING_MODEL."
        )
    return Embedded(found, usage)


def _usage(given: Any) -> Usage:  # noqa: ANN401 - any JSON
    tokens = given.get("prompt_tokens") if isinstance(given, dict) else None
    return Usage(tokens if isinstance(tokens, int) and 0 <= tokens < 1 << 40 else 0)


def _vector(given: Any) -> list[float]:  # noqa: ANN401 - any JSON
    vector = [float(part) for part in given]
    if not vector or not all(abs(part) < LARGEST for part in vector):
        raise ValueError("no vector")
    return vector
