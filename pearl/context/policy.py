"""What is done about a document that is longer than the model's window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from pearl.llm.tokens import count_tokens
from pearl.source import InputError

Policy: TypeAlias = Literal["auto", "full", "chunk", "retrieve"]
POLICIES: tuple[Policy, ...] = get_args(Policy)

REPLY = 1024
"""Tokens kept free for a reply where nothing else is said."""


@dataclass(frozen=True, slots=True)
class Context:
    """How much a prompt may hold, and what to do with a document that is longer.

    Args:
        policy: ``full`` fails; ``chunk`` runs steps on each part of the
            document and merges what they find; ``retrieve`` gives a step the
            passages that bear on it; ``auto`` gives the whole document to the
            steps it fits and does as ``chunk`` does with the others.
        window: tokens that a prompt and its reply may have together; None is
            unknown, and then nothing is checked or rewritten.
        reply: tokens of the window kept free for the reply.
        count: tokens of a text, at most one for each byte of its UTF-8 form.
            What it says of documents is remembered, for this very function.

    Raises:
        InputError: an unknown policy, or a window that a reply would fill.
    """

    policy: Policy = "auto"
    window: int | None = None
    reply: int = REPLY
    count: Callable[[str], int] = count_tokens

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise InputError(f"There is no context policy {self.policy}: use {_or(POLICIES)}.")
        if self.window is not None and self.window <= self.reply:
            raise InputError(
                f"A window of {self.window:,} tokens leaves nothing beside the {self.reply:,} kept "
                "free for a reply: give a larger window, or a smaller limit for replies."
            )


UNLIMITED = Context()
"""Nothing is known of a window, so nothing is checked."""


class ContextError(Exception):
    """A prompt that does not fit the window.

    Args:
        message: one line that names the sizes and says what to do.
        step: the step whose prompt it is.
    """

    def __init__(self, message: str, step: str = "") -> None:
        super().__init__(message)
        self.step = step


def _or(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
