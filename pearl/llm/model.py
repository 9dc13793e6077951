"""The shape every backend has."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Protocol, TypedDict

from pearl.llm.calls import Call
from pearl.values import canonical_json


class Message(TypedDict):
    """One message of a chat."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a call took, as the endpoint reports them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
        )


@dataclass(frozen=True, slots=True)
class Request:
    """A call with the words it became.

    Args:
        call: what is asked, for backends that need no words.
        messages: the rendered prompt.
        path: where in the run it stands, as ``step/ross`` or ``plan/1``.
        key: the hash of everything that decides the answer.
    """

    call: Call
    messages: tuple[Message, ...]
    path: str
    key: str


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's answer; ``complete`` is False where it stopped at its token limit."""

    text: str
    usage: Usage = field(default_factory=Usage)
    complete: bool = True


class ModelError(Exception):
    """A call that got no usable answer.

    Args:
        reason: one of ``authentication``, ``quota``, ``request``, ``rate``,
            ``connection``, ``timeout``, ``server``, ``reply``, ``cut``,
            ``recording``.
        message: one line for a person, without secrets.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Model(Protocol):
    """A backend.

    ``identity`` is everything about the model that decides its answers, for
    the call key; ``notice`` is what a person should know about it.
    """

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> str: ...

    @property
    def notice(self) -> str: ...

    async def answer(self, request: Request) -> Reply:
        """Answer one request.

        Raises:
            ModelError: no usable answer.
        """
        ...

    async def close(self) -> None:
        """Give back what the model holds open."""
        ...


def call_key(identity: str, messages: tuple[Message, ...], sample: int = 0) -> str:
    """The hash of everything that decides an answer (DESIGN, section 7).

    Args:
        identity: the model's, with its sampling.
        messages: the rendered prompt.
        sample: which of several answers to the same prompt.
    """
    data = canonical_json([identity, list(messages), sample])
    return hashlib.sha256(data.encode("utf-8", "surrogatepass")).hexdigest()
