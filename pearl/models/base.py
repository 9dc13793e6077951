"""The shape that every backend has: requests, replies, what goes wrong, and the key of a call."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

from pearl.lang.errors import InputError, PortableError
from pearl.lang.text import text_digest
from pearl.lang.values import canonical_json
from pearl.prompts.calls import Call, Message

if TYPE_CHECKING:
    from pearl.lang.context_free import Grammar

OFFLINE = "offline"
"""The name of the reader that is no language model."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a call took, as the endpoint reports them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0

    @property
    def total(self) -> int:
        """Tokens read and written."""
        return self.prompt_tokens + self.completion_tokens

    def is_reported(self, calls: int) -> bool:
        """Whether the tokens of so many calls are known: an endpoint may report none."""
        return self.total > 0 or not calls

    def in_words(self, calls: int) -> str:
        """What so many calls took, for a reader."""
        if not self.is_reported(calls):
            return "not reported"
        cached = ""
        if self.prompt_tokens:
            share = 100 * self.cached_tokens / self.prompt_tokens
            cached = f" ({share:.0f} % of them from the endpoint's cache)"
        return f"{self.prompt_tokens:,} read{cached}, {self.completion_tokens:,} written"

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
        )


NOTHING = Usage()
"""No tokens, or none that are known."""

Kind: TypeAlias = Literal["grammar", "schema"]
"""What a constraint may be."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """What a reply is held to while it is written: a grammar, or a JSON schema.

    Args:
        grammar: of plans or of steps; None where it is a schema.
        schema: as JSON text; empty where it is a grammar.
        form: how the endpoint takes it, by its name in `pearl.models.constraints`; empty where
            that is not known yet.
    """

    grammar: Grammar | None = None
    schema: str = ""
    form: str = ""

    @property
    def kind(self) -> Kind:
        """Which of the two it is."""
        return "schema" if self.grammar is None else "grammar"

    @property
    def digest(self) -> str:
        """The hash of what it lets through, whatever its form."""
        return _digest(self.schema if self.grammar is None else self.grammar.gbnf)


@dataclass(frozen=True, slots=True)
class Request:
    """A call with the words it became.

    Args:
        call: what is asked, for backends that need no words.
        messages: the rendered prompt.
        path: where in the run it stands, as ``step/ross`` or ``plan/1``.
        key: the hash of everything that decides the answer.
        stable: how many characters of the last message open every prompt on
            the same document, so that an endpoint may keep them; 0 for none.
        document: the hash of the document's text; empty where there is none.
        sample: which of several answers to the same prompt is wanted, from 0.
        constraint: what the reply is held to, in the form that the endpoint takes; None where
            it is free.
        plain: the key of the same call without a constraint; empty where it has none.
        model: who is to answer, where a run has several models.
        limit: tokens that the reply may have where no setting says so; 0 for any number. It is no
            part of the key, as a reply that comes to its end is the same without it.
    """

    call: Call
    messages: tuple[Message, ...]
    path: str
    key: str
    stable: int = 0
    document: str = ""
    sample: int = 0
    constraint: Constraint | None = None
    plain: str = ""
    model: Model | None = None
    limit: int = 0


@dataclass(frozen=True, slots=True)
class FailedTry:
    """A try at a call that got no usable answer, what it cost, and when it began.

    Times are in seconds, ``started`` since 1970; None where that is not known.
    """

    reason: str
    cause: str
    usage: Usage = NOTHING
    seconds: float = 0.0
    started: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's answer.

    Args:
        text: what it wrote.
        usage: the tokens it took, as far as the endpoint says.
        complete: False where it stopped at its token limit.
        kept: whether it was paid for before, or by another call that asked
            the same: nothing was sent for this one.
        attempts: what was tried before and failed.
        key: the key it belongs to, where that is not the request's: a recording has what a call
            got that was not constrained.
    """

    text: str
    usage: Usage = NOTHING
    complete: bool = True
    kept: bool = False
    attempts: tuple[FailedTry, ...] = ()
    key: str = ""


UNUSABLE = frozenset({"reply", "empty"})
"""Reasons that an answer came, and nothing in it is of use."""

PASSING = UNUSABLE | {"rate", "connection", "timeout", "server"}
"""Reasons that another try may mend."""

SILENT = frozenset({"connection", "timeout", "server"})
"""Reasons that say nothing of what was asked: the endpoint did not get as far as to answer it."""

FINAL = frozenset({"authentication", "quota", "budget", "store", "lost", "stopped"})
"""Reasons that every further call would meet again."""

SAY_WINDOW = "Say in PEARL_CONTEXT how many tokens fit it."
"""What ends the message of a refusal for a prompt's length that names no number."""


class ModelError(PortableError):
    """A call that got no usable answer.

    Args:
        reason: one of ``authentication``, ``quota``, ``request``, ``rate``,
            ``connection``, ``timeout``, ``server``, ``reply``, ``empty``, ``refusal``,
            ``cut``, ``length``, ``context``, ``budget``, ``calls``, ``input``, ``store``,
            ``stopped``, ``recording``; ``internal`` where Pearl itself failed, ``metric`` where
            what scores an answer did, and ``worker`` where a cluster's workers died.
        message: one line for a person, without secrets.
        retry_after: seconds that the endpoint asks everybody to wait.
        usage: tokens that were paid for all the same.
        attempts: what was tried before and failed.
        window: tokens that fit the model, where an endpoint that refuses a longer prompt says so.
        status: HTTP's, where an endpoint answered with an error; else 0.
        sent: whether the call may have reached whoever answers it.
        tries: how often it was tried; the error's text says so, and ``message`` does not, which is
            for other calls that fail of it.

    Beside these, ``complaint`` has an endpoint's words, with the names of fields, where it did not
    take a request as it was written; else it is empty. ``shared`` says that another question made
    the call, and this one only waited for it.
    """

    complaint = ""
    shared = False

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        retry_after: float | None = None,
        usage: Usage | None = None,
        attempts: tuple[FailedTry, ...] = (),
        window: int | None = None,
        status: int = 0,
        sent: bool = True,
        tries: int = 1,
    ) -> None:
        super().__init__(f"{message} ({tries} tries)" if tries > 1 else message)
        self.message = message
        self.reason = reason
        self.retry_after = retry_after
        self.usage = usage or Usage()
        self.attempts = attempts
        self.window = window
        self.status = status
        self.sent = sent

    def reword(self, reworded: Callable[[str], str]) -> None:
        """Say it in other words, also where it is told again."""
        self.args, self.message = (reworded(str(self)),), reworded(self.message)


Ask: TypeAlias = Callable[[Request], Awaitable[Reply]]
"""What a model's ``answer`` is, and every layer that is put around it."""


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
        """Answer one request; a `ModelError` where there is no usable answer."""
        ...

    async def close(self) -> None:
        """Give back what the model holds open."""
        ...


@runtime_checkable
class TokenCounter(Protocol):
    """A model that knows how much fits it, and counts in its own vocabulary."""

    window: int

    def count(self, text: str) -> int:
        """Tokens of a text."""
        ...


def call_key(
    identity: str,
    messages: tuple[Message, ...],
    sample: int = 0,
    shared: str = "",
    constraint: Constraint | None = None,
) -> str:
    """The hash of everything that decides an answer (docs/design.md).

    Args:
        identity: the model's, with its sampling.
        messages: the rendered prompt.
        sample: which of several answers to the same prompt.
        shared: what the last message begins with, and many prompts share: the same object each
            time is hashed once, and its hash stands for it.
        constraint: what the reply is held to; None for nothing, which leaves the key as it was
            before there were any.
    """
    *before, last = messages
    rest = [last["role"], _digest(shared) if shared else "", last["content"][len(shared) :]]
    held = [constraint.digest] if constraint else []
    return _digest(canonical_json([identity, before, rest, sample, *held]))


def _digest(text: str) -> str:
    # A long text is a document's, and comes again.
    return (text_digest if len(text) < 8000 else _cached_digest)(text)


_cached_digest = lru_cache(maxsize=64)(text_digest)


def env_number(name: str) -> int | None:
    """A number from the environment; None where it is not set.

    Args:
        name: ``PEARL_TRIES`` (how often a call is tried in all), ``PEARL_CONTEXT`` (tokens that fit
            the model, its reply among them), ``PEARL_MAX_TOKENS`` (tokens that a reply may have),
            ``PEARL_WIDTH`` (items that a step runs over), ``PEARL_CHARACTERS`` (of the outputs
            of a question) or ``PEARL_THREADS`` (of a model in this process).

    Raises:
        InputError: it is no whole number above 0.
    """
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal() or len(text) > 18 or int(text) < 1:
        raise InputError(f"{name} is wrong: it is to be a whole number above 0.")
    return int(text)
