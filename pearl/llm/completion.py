"""What an endpoint sent as a completion, read with no trust: the SDK validates almost nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pearl.llm.model import ModelError, Reply, Usage

SHOWN = 200
"""Characters of an endpoint's own words that a message repeats."""


def read_completion(sent: Any, hidden: Callable[[str], str]) -> Reply:  # noqa: ANN401
    """The text and usage of a completion, whatever shape it really has.

    Args:
        sent: what the SDK made of the endpoint's answer.
        hidden: takes the key out of a text.

    Raises:
        ModelError: it holds no text.
    """
    choice = _choice(sent, hidden)
    message = getattr(choice, "message", None)
    finished = getattr(choice, "finish_reason", None)
    text = getattr(message, "content", None)
    refusal = getattr(message, "refusal", None)
    if isinstance(refusal, str) and refusal and not text:
        raise ModelError("reply", f"The model refused: {_short(refusal, hidden)}")
    if text is not None and not isinstance(text, str):
        kind = "a list" if isinstance(text, list) else "something else"
        raise ModelError("reply", f"The endpoint sent the answer as {kind} and not as text.")
    if text is None or not text.strip():
        raise ModelError("reply", _empty(finished))
    # Half a surrogate pair may be written in JSON, and could not be sent on.
    whole = hidden(text).encode("utf-8", "replace").decode("utf-8")
    return Reply(whole, _usage(getattr(sent, "usage", None)), complete=finished != "length")


def _choice(sent: Any, hidden: Callable[[str], str]) -> Any:  # noqa: ANN401
    choices = getattr(sent, "choices", None)
    if isinstance(choices, list) and choices:
        return choices[0]
    error = getattr(sent, "error", None)
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        raise ModelError("server", f"The endpoint failed: {_short(error['message'], hidden)}")
    kind = "a page" if isinstance(sent, str) else "something else"
    raise ModelError(
        "reply", f"The endpoint sent {kind} instead of a completion: check OPENAI_BASE_URL."
    )


def _empty(finished: object) -> str:
    if finished == "length":
        return (
            "The model stopped at its token limit before it said anything: raise PEARL_MAX_TOKENS."
        )
    if finished == "content_filter":
        return "The endpoint's content filter held the answer back."
    return "The model sent an empty answer."


def _short(text: str, hidden: Callable[[str], str]) -> str:
    return " ".join(hidden(text).split())[:SHOWN]


def _usage(usage: Any) -> Usage:  # noqa: ANN401
    details = getattr(usage, "prompt_tokens_details", None)
    return Usage(
        _whole(getattr(usage, "prompt_tokens", 0)),
        _whole(getattr(usage, "completion_tokens", 0)),
        _whole(getattr(details, "cached_tokens", 0)),
    )


def _whole(number: object) -> int:
    return number if type(number) is int and number > 0 else 0
