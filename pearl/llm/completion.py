"""What an endpoint sent as a completion, read with no trust."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pearl.llm.model import ModelError, Reply, Usage

SHOWN = 200
"""Characters of an endpoint's own words that a message repeats."""

LONGEST = 1_000_000
"""Characters of a reply that a later prompt could still hold."""


def read_completion(data: bytes, hidden: Callable[[str], str]) -> Reply:
    """The text and usage of a completion, whatever shape it really has.

    Args:
        data: the endpoint's answer.
        hidden: takes the key out of a text.

    Raises:
        ModelError: it holds no text that can be used; what it cost is in it.
    """
    try:
        sent = json.loads(data)
    except (ValueError, RecursionError):
        raise ModelError("reply", _no_json(data)) from None
    if not isinstance(sent, dict):
        raise ModelError("reply", _NOTHING.format("something else"))
    usage = _usage(sent.get("usage"))
    choice = _choice(sent, usage, hidden)
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    finished = choice.get("finish_reason")
    text, refusal = message.get("content"), message.get("refusal")
    if isinstance(refusal, str) and refusal and not text:
        raise ModelError("refusal", f"The model refused: {_short(refusal, hidden)}", usage=usage)
    if text is not None and not isinstance(text, str):
        kind = "a list" if isinstance(text, list) else "something else"
        raise ModelError(
            "reply", f"The endpoint sent the answer as {kind} and not as text.", usage=usage
        )
    if text is None or not text.strip():
        raise _empty(finished, usage)
    if len(text) > LONGEST:
        raise ModelError(
            "reply", f"The answer has {len(text):,} characters: no step can use that.", usage=usage
        )
    # Half a surrogate pair and NUL may be written in JSON, and could not be sent on or kept.
    whole = hidden(text).encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")
    return Reply(whole, usage, complete=finished != "length")


_NOTHING = "The endpoint sent {} instead of a completion: check OPENAI_BASE_URL."


def _no_json(data: bytes) -> str:
    start = data[:200].lstrip().lower()
    if start.startswith(b"data:"):
        return "The endpoint streams its answer though it was not asked to."
    if start.startswith((b"{", b"[")):
        return "The endpoint's answer is damaged: it is not whole JSON."
    return _NOTHING.format("a page" if start.startswith(b"<") else "something else")


def _choice(sent: dict[str, Any], usage: Usage, hidden: Callable[[str], str]) -> dict[str, Any]:
    choices = sent.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return choices[0]
    error = sent.get("error")
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        raise ModelError("server", f"The endpoint failed: {_short(error['message'], hidden)}")
    raise ModelError("reply", _NOTHING.format("something else"), usage=usage)


def _empty(finished: object, usage: Usage) -> ModelError:
    if finished == "length":
        # The same call would stop there again, so it is not tried again.
        return ModelError(
            "request",
            "The model stopped at its token limit before it said anything: raise PEARL_MAX_TOKENS.",
            usage=usage,
        )
    if finished == "content_filter":
        return ModelError(
            "refusal", "The endpoint's content filter held the answer back.", usage=usage
        )
    return ModelError("reply", "The model sent an empty answer.", usage=usage)


def _short(text: str, hidden: Callable[[str], str]) -> str:
    return " ".join(hidden(text).split())[:SHOWN]


def _usage(usage: object) -> Usage:
    if not isinstance(usage, dict):
        return Usage()
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    return Usage(
        _whole(usage.get("prompt_tokens")), _whole(usage.get("completion_tokens")), _whole(cached)
    )


def _whole(number: object) -> int:
    return number if type(number) is int and 0 < number < 1 << 53 else 0
