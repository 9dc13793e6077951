"""The interface of every backend: requests, replies, errors, and the key of a call."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

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
        """Whether the tokens of ``calls`` calls are known: an endpoint may report none."""
        return self.total > 0 or not calls

    def in_words(self, calls: int) -> str:
        """The tokens that ``calls`` calls took, in words."""
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
"""The kinds of constraints."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A grammar or a JSON schema that constrains a reply while it is decoded.

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
        """Whether it is a grammar or a schema."""
        return "schema" if self.grammar is None else "grammar"

    @property
    def digest(self) -> str:
        """The hash of the grammar or the schema, whatever its form."""
        return _digest(self.schema if self.grammar is None else self.grammar.gbnf)


class Request(NamedTuple):
    """A call with its rendered prompt.

    Args:
        call: what is asked, for backends that need no words.
        messages: the rendered prompt.
        path: where in the run it stands, as ``step/ross`` or ``plan/1``.
        key: the hash of everything that decides the answer.
        stable: how many characters of the last message open every prompt on
            the same document, so that an endpoint may cache them; 0 for none.
        document: the hash of the document's text; empty where there is none.
        sample: which of several answers to the same prompt is wanted, from 0.
        constraint: what constrains the reply, in the form that the endpoint takes; None where
            nothing does.
        plain: the key of the same call without a constraint; empty where it has none.
        model: the model that answers, where a run has several.
        limit: the most tokens of the reply where no setting says so; 0 for no limit. It is no
            part of the key, as a reply that is not cut is the same without it.
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
    """A try at a call that failed: the `ModelError`'s reason and message, and what the try took.

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
        kept: whether it comes from the cache, or from another call that asked
            the same: nothing was sent or paid for this one.
        attempts: the earlier tries, which failed.
        key: the key it belongs to, where that is not the request's: a recording may hold the
            reply to the same call without a constraint.
    """

    text: str
    usage: Usage = NOTHING
    complete: bool = True
    kept: bool = False
    attempts: tuple[FailedTry, ...] = ()
    key: str = ""


UNUSABLE = frozenset({"reply", "empty"})
"""Reasons of errors where an answer came that cannot be used."""

PASSING = UNUSABLE | {"rate", "connection", "timeout", "server"}
"""Reasons of errors that another try may not meet."""

SILENT = frozenset({"connection", "timeout", "server"})
"""Reasons of errors where the endpoint did not answer, which say nothing of the request."""

FINAL = frozenset({"authentication", "quota", "budget", "store", "lost", "stopped"})
"""Reasons of errors that every further call would meet again."""

SAY_WINDOW = "Say in PEARL_CONTEXT how many tokens fit it."
"""Ends the message where an endpoint refuses a prompt as too long and names no limit."""


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
        attempts: every try, which failed.
        window: tokens that fit the model, where an endpoint that refuses a longer prompt says so.
        status: HTTP's, where an endpoint answered with an error; else 0.
        sent: whether the call may have reached the endpoint.

    The error's text also says how often the call was tried; ``message`` does not, as other calls
    that fail with this one repeat it. Besides, ``complaint`` has an endpoint's words, with the
    names of fields, where it refused a request as malformed; else it is empty. ``shared`` says that
    another question made the call, and this one only waited for it.
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
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.retry_after = retry_after
        self.usage = usage or Usage()
        self.attempts = attempts
        self.window = window
        self.status = status
        self.sent = sent

    def again(self) -> ModelError:
        """The error for another caller that waited for the same call, without the call's usage, as
        it is counted once, its tries and its status."""
        wait, window = self.retry_after, self.window
        return ModelError(self.reason, self.message, retry_after=wait, window=window)

    def reword(self, reworded: Callable[[str], str]) -> None:
        """Change the words of the message, also in a copy of the error."""
        self.args, self.message = (reworded(str(self)),), reworded(self.message)


Ask: TypeAlias = Callable[[Request], Awaitable[Reply]]
"""The type of a model's ``answer``, and of every layer around it."""


class Model(Protocol):
    """A backend.

    ``identity`` is everything about the model that decides its answers, for
    the call key; ``notice`` is a sentence that a person should read, or empty.
    """

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> str: ...

    @property
    def notice(self) -> str: ...

    async def answer(self, request: Request) -> Reply:
        """Answer one request; a `ModelError` where there is no usable answer."""

    async def close(self) -> None:
        """Close what the model holds open, such as connections."""


@runtime_checkable
class TokenCounter(Protocol):
    """A model that knows its context window, in tokens, and counts in its own vocabulary."""

    window: int

    def count(self, text: str) -> int:
        """Tokens of a text."""


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
        shared: the beginning of the last message, which many prompts share; its hash is cached.
        constraint: what constrains the reply; None for nothing, which leaves the key as it was
            before there were constraints.
    """
    *before, last = messages
    rest = [last["role"], _digest(shared) if shared else "", last["content"][len(shared) :]]
    constrained = [constraint.digest] if constraint else []
    return _digest(canonical_json([identity, before, rest, sample, *constrained]))


def _digest(text: str) -> str:
    # A long text is a document, which many calls share.
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
