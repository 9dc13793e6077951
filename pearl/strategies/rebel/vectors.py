"""An endpoint's vectors as calls like any other: journaled, kept, and tried again."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from struct import pack, unpack
from typing import TypeAlias

from pearl.embedding import Embed, Endpoint
from pearl.engine import start_engine
from pearl.engine.keep import Keeper
from pearl.llm import Ask, FillSchema, Reply, Request, Schema
from pearl.runtime import Caller, Journal
from pearl.values import as_text

Embedding: TypeAlias = Callable[[Journal], Embed]
"""An embedding, given where its calls are written down."""

_TEXTS = Schema("embedding", "", ())


def embedding(embed: Embed, keeper: Keeper | None) -> Embedding:
    """An embedding whose calls are in the journal; one that calls nobody is as it is.

    Args:
        embed: an endpoint's, or one that is worked out here.
        keeper: where vectors are kept; None keeps none.

    Raises:
        InputError: the settings of the environment cannot be used.
    """
    # Looked at now: a setting that is wrong is told before anything is asked.
    identity = embed.identity
    if not isinstance(embed, Endpoint):
        return lambda _: embed
    engine = start_engine(_AsModel(embed), keeper)
    return lambda journal: _Journaled(engine.ask, identity, journal)


@dataclass(frozen=True, slots=True)
class _AsModel:
    """An endpoint's embedding in the shape that the engine's layers take."""

    embed: Endpoint
    notice: str = ""

    @property
    def name(self) -> str:
        return self.embed.name

    @property
    def identity(self) -> str:
        return self.embed.identity

    async def answer(self, request: Request) -> Reply:
        assert isinstance(request.call, FillSchema)
        [(_, texts)] = request.call.given
        assert isinstance(texts, list)
        found = await self.embed.ask([as_text(one) for one in texts])
        return Reply(_packed(found.vectors), found.usage)

    async def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True, slots=True)
class _Journaled:
    ask: Ask
    identity: str
    journal: Journal

    async def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        found: list[list[float]] = []

        async def ask(request: Request) -> Reply:
            reply = await self.ask(request)
            found.extend(_unpacked(reply.text))
            # The numbers are in the store, once: a journal is read by people.
            return replace(reply, text=f"{len(found)} vectors of {len(found[0])} numbers")

        call = FillSchema(_TEXTS, (("texts", list(texts)),))
        await Caller(ask, self.identity, self.journal)(call, "embedding")
        return found


def _packed(vectors: Sequence[Sequence[float]]) -> str:
    """Vectors as text, with the precision in which endpoints compute them."""
    rows = (b64encode(pack(f"<{len(one)}f", *one)).decode() for one in vectors)
    return json.dumps(list(rows))


def _unpacked(text: str) -> list[list[float]]:
    rows = map(b64decode, json.loads(text))
    return [list(unpack(f"<{len(one) // 4}f", one)) for one in rows]
