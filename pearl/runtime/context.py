"""How much a prompt may hold: a model's window, as far as it is known, and what is learned of it.

What is done where something is longer stands in `pearl.runtime.fitting`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
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
"""Tokens that a reply may have where nothing else is said: far more than any that is of use."""

CHOICE = 1024
"""Tokens that a reply may have which is to name one of several things, or to be a word."""

SHARE = 8
"""One in so many of a window's tokens is kept free for a reply."""

SMALLEST = 512
"""Tokens below which nothing that an endpoint says is a window."""

_MARGIN = 32
"""Tokens that an endpoint puts around messages, and that texts may take more when joined."""


@dataclass(slots=True)
class LearnedWindow:
    """What an endpoint says of a model's window when it refuses a prompt for its length.

    Args:
        tokens: that a prompt and its reply may have together; None before it said anything.
    """

    tokens: int | None = None

    def learn(self, stated: int, messages: Sequence[Message], context: Context) -> bool:
        """Take in what a refusal says; whether the limit is smaller now.

        A number that the refused prompt cannot exceed is none of a window. Where the prompt should
        have fitted, the endpoint's tokens are smaller than those that are counted here, and the
        limit goes down by a fifth, to half of what was said at the least.

        Args:
            stated: tokens, as the endpoint has it.
            messages: of the prompt that it refused.
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
        """What a person should know of a window that was not known from the start."""
        if not self.tokens:
            return ""
        return (
            f"The endpoint refused a prompt as too long, so {self.tokens:,} tokens count as what "
            f"fits it: PEARL_CONTEXT={self.tokens} says so from the start."
        )


@cache
def learned_window(identity: str) -> LearnedWindow:
    """What is learned in this process of the model of an identity: the same object each time."""
    del identity
    return LearnedWindow()


@dataclass(frozen=True, slots=True)
class Context:
    """How much a prompt may hold, and what to do with a document that is longer.

    Args:
        policy: ``full`` fails; ``chunk`` runs steps on each part of the document and merges what
            they find; ``retrieve`` gives a step the passages that bear on it; ``auto`` gives the
            whole document to the steps it fits and does as ``chunk`` does with the others.
        window: tokens that a prompt and its reply may have together; None is unknown, and then
            nothing is checked or rewritten.
        reply: tokens of the window kept free for the reply; 0 for an eighth of it, within reason.
        count: tokens of a text, at most one for each byte of its UTF-8 form. What it says of
            documents is remembered, for this very function.
        learned: what the endpoint has said of its window meanwhile; None where nobody listens.
        whole: the model's own window, where prompts are kept shorter than it needs; None where this
            is that.

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
        """Tokens that fit a prompt and its reply, as far as is known by now."""
        learned = self.learned.tokens if self.learned else None
        return min(filter(None, (self.window, learned)), default=None)

    @property
    def free(self) -> int:
        """Tokens of the window that are kept free for the reply."""
        limit = self.limit
        usual = min(LONGEST, max(limit // SHARE, SMALLEST // 2)) if limit else REPLY
        return self.reply or usual

    @property
    def room(self) -> int:
        """Tokens that a prompt may have, of a known window."""
        return (self.limit or 0) - self.free

    @property
    def facts(self) -> dict[str, Any]:
        """What a journal says of it, so that a page can make the prompts again."""
        return {"policy": self.policy, "window": self.limit, "reply": self.free}

    def size(self, messages: Sequence[Message]) -> int:
        """Tokens of a prompt, as an endpoint puts it together."""
        return _MARGIN + sum(self.count(message["content"]) for message in messages)

    def holds(self, messages: Sequence[Message]) -> bool:
        """Whether a prompt and its reply fit, as far as is known by now."""
        if self.limit is None:
            return True
        # A token has a byte or more, so that most prompts need not be counted.
        most = sum(len(message["content"].encode("utf-8", "replace")) for message in messages)
        return most + _MARGIN <= self.room or self.size(messages) <= self.room


UNLIMITED = Context()
"""Nothing is known of a window, so nothing is checked."""


class ContextError(ModelError):
    """A prompt that does not fit the window, and was not sent.

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
    """An ask that bounds replies, learns windows from an endpoint's refusals, and writes them down,
    as decisions of a journal.

    In a known window a reply may have what is kept free there, so that a plan is made to fit by
    sizes that no reply exceeds; where somebody has set a limit, that is all. Where an endpoint
    refuses a prompt only for the room its reply would need, it is asked again without a bound.

    Args:
        ask: asks the model.
        reading: the window; of several models, that of those that are shown documents.
        decide: writes a decision down.
        planner: who plans, where there are several models.
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
        # A grammar has an end of its own, once it is known that the endpoint keeps to it.
        held = request.constraint is not None and request.constraint.grammar and not proof
        if held or limited:
            longest = 0
        try:
            try:
                return await ask(replace(request, limit=longest))
            except ModelError as error:
                # To count a prompt takes longer than to ask a cache.
                size = context.size(request.messages) if error.window else 1
                if not size <= (error.window or 0) < size + longest:
                    raise
                return await ask(request)
        except ModelError as error:
            stated, learned = error.window, context.learned
            # Of several models, those that are shown documents say how long these may be.
            told = reads or plans
            if stated and told and learned and learned.learn(stated, request.messages, context):
                decide("window", {"said": stated, "tokens": learned.tokens})
            if told and context.limit:
                option = "--window, or PEARL_CONTEXT," if reads else "PEARL_CONTEXT"
                smaller = f"Give a smaller {option} than {context.limit:,}."
                error.args = (str(error).replace(SAY_WINDOW, smaller),)
            raise

    return listening
