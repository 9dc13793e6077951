"""An OpenAI-compatible endpoint's embeddings."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pearl.llm import ModelError
from pearl.llm.failures import failure, read_complaint
from pearl.llm.transport import Transport
from pearl.values import canonical_json

if TYPE_CHECKING:
    from pearl.llm.settings import Settings

OPENAI = "https://api.openai.com/v1"
"""The endpoint where none is named."""


class OpenAIEmbedding:
    """A model of an endpoint, asked over ``/embeddings``.

    Nothing here tries again.

    Args:
        name: the model's, as the endpoint knows it.
        settings: where the endpoint is, who pays, and how long a call may take.
    """

    def __init__(self, name: str, settings: Settings) -> None:
        self.name = name
        self._settings = settings

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent to a worker without the key: it reads its own environment."""
        return _from_environment, (self.name,)

    @property
    def identity(self) -> str:
        return canonical_json([self.name, self._settings.base_url])

    async def __call__(self, texts: Sequence[str]) -> list[list[float]]:
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
        return _vectors(answer.body, len(texts))

    def _hidden(self, text: str) -> str:
        secret = self._settings.api_key.get_secret_value()
        return text.replace(secret, "***") if secret else text


def _from_environment(name: str) -> OpenAIEmbedding:
    from pearl.llm.choose import read_settings

    return OpenAIEmbedding(name, read_settings(name))


def _vectors(body: bytes, count: int) -> list[list[float]]:
    """The vectors of an answer, in the order of what was asked."""
    try:
        rows = json.loads(body)["data"]
        found = [_vector(row["embedding"]) for row in sorted(rows, key=lambda row: row["index"])]
    except (ValueError, TypeError, KeyError, RecursionError):
        found = []
    if len(found) != count or len({len(one) for one in found}) != 1:
        raise ModelError(
            "reply", "The endpoint's answer holds no embeddings: check PEARL_EMBEDDING_MODEL."
        )
    return found


def _vector(given: Any) -> list[float]:  # noqa: ANN401 - any JSON
    vector = [float(part) for part in given]
    if not vector or not all(map(math.isfinite, vector)):
        raise ValueError("no vector")
    return vector
