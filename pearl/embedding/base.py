"""The one shape of embeddings, and how near two of them are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pearl.llm import Usage


class Embed(Protocol):
    """Turns texts into vectors."""

    @property
    def identity(self) -> str:
        """Everything about it that decides its vectors; no secret is in it."""
        ...

    async def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text, in their order, all of one length.

        Vectors of one call can be compared; those of two need not be.

        Args:
            texts: at least one.

        Raises:
            ModelError: there are none.
        """
        ...


@dataclass(frozen=True, slots=True)
class Embedded:
    """What an endpoint answered.

    Args:
        vectors: one for each text.
        usage: the tokens it took, as far as the endpoint says.
    """

    vectors: list[list[float]]
    usage: Usage


@runtime_checkable
class Endpoint(Embed, Protocol):
    """An embedding that is asked over the network, a call each time."""

    @property
    def name(self) -> str:
        """The model's, as the endpoint knows it."""
        ...

    async def ask(self, texts: Sequence[str]) -> Embedded:
        """As `Embed`, with what it took; nothing is tried again.

        Raises:
            ModelError: there are none.
        """
        ...


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """The cosine of the angle between two vectors; 0 where one of them has no length."""
    lengths = math.hypot(*one) * math.hypot(*other)
    if not lengths or not math.isfinite(lengths):
        return 0.0
    return sum(left * right for left, right in zip(one, other, strict=True)) / lengths
