"""A model's context window, as it is known beforehand or learned from an endpoint's refusals.

`pearl.runtime.fit_to_window` makes longer prompts fit it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias, get_args
from typing import Literal as OneOf

from pearl.lang.errors import InputError, check_whole
from pearl.models.base import SAY_WINDOW, Ask, Model, ModelError, Reply, Request, env_number
from pearl.models.tokens import count_tokens
from pearl.prompts.calls import LabelQuestion, MapAnswer, Message, ProveForm

Policy: TypeAlias = OneOf["auto", "full", "chunk", "retrieve"]
POLICIES: tuple[Policy, ...] = get_args(Policy)

REPLY = 1024
"""Tokens kept free for a reply where the window is not known."""

LONGEST = 4096
"""The most tokens of a reply by default: far more than any useful one has."""

CHOICE = 1024
"""The most tokens of a reply that is to name an option or to be a word."""

SHARE = 8
"""The part of a window that is kept free for a reply is one eighth."""

SMALLEST = 512
"""The smallest window in tokens; a smaller number in an endpoint's words is none."""

_MARGIN = 32
"""Tokens that an endpoint adds around messages, and that joined texts may take beyond the sum."""


@dataclass(slots=True)
class LearnedWindow:
    """What an endpoint says of a model's window when it refuses a prompt for its length.

    Args:
        tokens: the most tokens of a prompt and its reply together; None before a refusal.
    """

    tokens: int | None = None

    def learn(self, stated: int, messages: Sequence[Message], context: Context) -> bool:
        """Learn from a refusal; True if the limit is smaller now.

        A number that the refused prompt cannot exceed is no window. Where the prompt should have
        fitted, the endpoint counts more tokens than Pearl, and the limit is reduced by a fifth, but
        not below half of the stated number.

        Args:
            stated: the tokens that the endpoint names.
            messages: the prompt that it refused.
            context: the window as it was known so far.
        """
        texts = [message["content"] for message in messages]
        most = sum(len(text.encode("utf-8", "replace")) for text in texts) + context.free
        if stated < SMALLEST or stated > most or not context.holds(messages):
            return False
        limit = context.limit
        smaller = stated if limit is None or stated < limit else limit * 4 // 5
        if smaller < stated // 2:
            return False
        self.tokens = smaller
        return True

    @property
    def notice(self) -> str:
        """A sentence about a window that was learned; empty where none was."""
        if not self.tokens:
            return ""
        return (
            f"The endpoint refused a prompt as too long, so {self.tokens:,} tokens count as what "
            f"fits it: PEARL_CONTEXT={self.tokens} says so from the start."
        )


@cache
def learned_window(identity: str) -> LearnedWindow:
    """What this process learns of the window of a model with an identity: always one object."""
    del identity
    return LearnedWindow()


@dataclass(frozen=True, slots=True)
class Context:
    """A context window, and what to do with a document that is longer.

    Args:
        policy: ``full`` fails; ``chunk`` runs steps on each part of the document and merges what
            they find; ``retrieve`` gives a step the passages that are relevant to it; ``auto``
            gives the whole document to the steps it fits, and does as ``chunk`` with the others.
        window: the most tokens of a prompt and its reply together; None where it is unknown, and
            nothing is checked or rewritten.
        reply: tokens of the window kept free for the reply; 0 for an eighth, between 256 and 4,096.
        count: counts the tokens of a text: at most one for each byte of its UTF-8 form. Its counts
            of documents are cached, apart from those of any other function.
        learned: what the endpoint says of its window during the run; None to ignore it.
        whole: the model's own window, where this one is smaller only to keep prompts short.

    Raises:
        InputError: an unknown policy, or a window that a reply would fill.
    """

    policy: Policy = "auto"
    window: int | None = None
    reply: int = 0
    count: Callable[[str], int] = count_tokens
    learned: LearnedWindow | None = field(default=None, compare=False)
    whole: Context | None = None

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            names = f"{', '.join(POLICIES[:-1])} or {POLICIES[-1]}"
            raise InputError(f"There is no context policy {self.policy}: use {names}.")
        check_whole(window=self.window)
        if self.window is not None and self.window <= self.free:
            raise InputError(
                f"A window of {self.window:,} tokens leaves nothing beside the {self.free:,} kept "
                "free for a reply: give a larger window, or a smaller limit for replies."
            )

    @property
    def limit(self) -> int | None:
        """The most tokens of a prompt and its reply, as far as is known by now."""
        learned = self.learned.tokens if self.learned else None
        return min(self.window, learned) if self.window and learned else self.window or learned

    @property
    def free(self) -> int:
        """Tokens of the window that are kept free for the reply."""
        limit = self.limit
        usual = min(LONGEST, max(limit // SHARE, SMALLEST // 2)) if limit else REPLY
        return self.reply or usual

    @property
    def room(self) -> int:
        """The most tokens of a prompt, where the window is known."""
        return (self.limit or 0) - self.free

    @property
    def facts(self) -> dict[str, Any]:
        """The record in a journal, from which a page can render the prompts again."""
        return {"policy": self.policy, "window": self.limit, "reply": self.free}

    def size(self, messages: Sequence[Message]) -> int:
        """The tokens of a prompt, with those that an endpoint adds."""
        return _MARGIN + sum(self.count(message["content"]) for message in messages)

    def holds(self, messages: Sequence[Message]) -> bool:
        """Whether a prompt and its reply fit, as far as is known by now."""
        if self.limit is None:
            return True
        # A token has at least a byte, so most prompts need not be counted.
        most = sum(len(message["content"].encode("utf-8", "replace")) for message in messages)
        return most + _MARGIN <= self.room or self.size(messages) <= self.room


UNLIMITED = Context()
"""An unknown window: nothing is checked."""


class ContextError(ModelError):
    """A prompt does not fit the window, and was not sent.

    Args:
        message: one line that names the sizes and says what to do.
        step: the step whose prompt it is.
    """

    def __init__(self, message: str, step: str = "") -> None:
        super().__init__("context", message, sent=False)
        self.step = step


def learning(
    ask: Ask,
    reading: Context,
    decide: Callable[[str, Any], None],
    planner: Model | None = None,
    planning: Context = UNLIMITED,
) -> Ask:
    """A layer that limits replies, learns windows from an endpoint's refusals, and records them in
    a journal.

    In a known window, the limit of a reply is what is kept free for it, so that no reply exceeds
    the sizes for which a plan was made to fit. Where a setting limits replies, no limit is added.
    If an endpoint refuses a prompt only for the tokens of its reply, it is asked again without a
    limit.

    Args:
        ask: asks the model.
        reading: the window; of several models, that of those that are shown documents.
        decide: records a decision.
        planner: the planner, where there are several models.
        planning: the planner's window.
    """

    limited = env_number("PEARL_MAX_TOKENS")

    async def listening(request: Request) -> Reply:
        reads = request.model is None or bool(request.document)
        plans = not reads and request.model is planner
        context = planning.whole or planning if plans else reading
        longest = context.free if context.limit else LONGEST
        proof = isinstance(request.call, ProveForm)
        if proof or isinstance(request.call, MapAnswer | LabelQuestion):
            longest = min(longest, CHOICE)
        # A grammar bounds the reply itself, once it is known that the endpoint obeys it.
        bounded = request.constraint is not None and request.constraint.grammar and not proof
        if bounded or limited:
            longest = 0
        try:
            try:
                return await ask(request._replace(limit=longest))
            except ModelError as error:
                # Only now, as counting a prompt takes longer than a look in a cache.
                size = context.size(request.messages) if error.window else 1
                if not size <= (error.window or 0) < size + longest:
                    raise
                return await ask(request)
        except ModelError as error:
            stated, learned = error.window, context.learned
            # Other calls, as to a model that an action names, say nothing about these windows.
            known = reads or plans
            if stated and known and learned and learned.learn(stated, request.messages, context):
                decide("window", {"said": stated, "tokens": learned.tokens})
            if known and context.limit:
                option = "--window, or PEARL_CONTEXT," if reads else "PEARL_CONTEXT"
                smaller = f"Give a smaller {option} than {context.limit:,}."
                error.args = (str(error).replace(SAY_WINDOW, smaller),)
            raise

    return listening
