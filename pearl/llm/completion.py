"""What an endpoint sent as a completion, read with no trust."""

from __future__ import annotations

import json
from typing import Any

from pearl.llm.failures import SHOWN, Hidden, complaint_of, failure
from pearl.llm.model import ModelError, Reply, Usage

LONGEST = 1_000_000
"""Characters of a reply beyond which no further prompt could hold it."""

MOST_TOKENS = 10**9
"""Tokens beyond which a number is no count of any call's."""

INSTEAD = "The endpoint sent {} instead of a completion: check OPENAI_BASE_URL."


def read_completion(body: bytes, hidden: Hidden) -> Reply:
    """The text and usage of a completion, whatever shape it really has.

    Args:
        body: what the endpoint sent with a status of success.
        hidden: takes the key out of a text.

    Raises:
        ModelError: it holds no usable text; its usage is what was paid all the same.
    """
    return reply_of(_loaded(body), hidden)


def reply_of(data: Any, hidden: Hidden) -> Reply:  # noqa: ANN401 - any JSON
    """The text and usage of a completion that was read as JSON.

    Args:
        data: the JSON.
        hidden: takes the key out of a text.

    Raises:
        ModelError: as `read_completion`.
    """
    usage = _usage(_of(data, "usage"))
    try:
        return _reply(data, usage, hidden)
    except ModelError as error:
        error.usage = usage
        raise


def _loaded(body: bytes) -> Any:  # noqa: ANN401 - any JSON
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise ModelError("reply", _no_json(body[:200].lstrip())) from None


def _no_json(start: bytes) -> str:
    if start.startswith((b"data:", b"event:")):
        return "The endpoint streams its answer, which was not asked for: turn streaming off there."
    if start.startswith((b"{", b"[")):
        return "The endpoint's answer is damaged: it is not whole JSON."
    return INSTEAD.format("a page" if start.startswith(b"<") else "something else")


def _reply(data: Any, usage: Usage, hidden: Hidden) -> Reply:  # noqa: ANN401 - any JSON
    choices = _of(data, "choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        raise _told(data, hidden) or ModelError("reply", INSTEAD.format("something else"))
    message, finished = _of(choice, "message"), _of(choice, "finish_reason")
    text, refusal = _of(message, "content"), _of(message, "refusal")
    if isinstance(refusal, str) and refusal and not text:
        raise ModelError("refusal", f"The model refused: {_short(refusal, hidden)}")
    if finished == "content_filter":
        raise ModelError("refusal", "The endpoint's content filter held the answer back.")
    if text is not None and not isinstance(text, str):
        kind = "a list" if isinstance(text, list) else "something else"
        raise ModelError("reply", f"The endpoint sent the answer as {kind} and not as text.")
    if text is None or not text.strip():
        raise _told(choice, hidden) or _empty(finished)
    if len(text) > LONGEST:
        raise ModelError(
            "reply",
            f"The model's answer has {len(text):,} characters, more than the {LONGEST:,} that "
            "a further prompt could hold.",
        )
    # Half a surrogate pair and NUL may be written in JSON, and could not be sent on or kept.
    whole = hidden(text).encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")
    return Reply(whole, usage, complete=finished != "length")


def _told(data: Any, hidden: Hidden) -> ModelError | None:  # noqa: ANN401 - any JSON
    """An error that came with a status of success, judged by the code in it."""
    error = _of(data, "error")
    if not error:
        return None
    code = _of(error, "code")
    status = code if type(code) is int and 400 <= code < 600 else 500
    return failure(status, {}, complaint_of(data, hidden))


def _empty(finished: object) -> ModelError:
    if finished == "length":
        # The same call would come to the same end: only another request can mend it.
        return ModelError(
            "request",
            "The model stopped at its token limit before it said anything: raise PEARL_MAX_TOKENS.",
        )
    return ModelError("reply", "The model sent an empty answer.")


def _short(text: str, hidden: Hidden) -> str:
    return " ".join(hidden(text).split())[:SHOWN]


def _usage(usage: object) -> Usage:
    details = _of(usage, "prompt_tokens_details")
    return Usage(
        _whole(_of(usage, "prompt_tokens")),
        _whole(_of(usage, "completion_tokens")),
        _whole(_of(details, "cached_tokens")) or _whole(_of(usage, "prompt_cache_hit_tokens")),
    )


def _of(data: object, name: str) -> Any:  # noqa: ANN401 - any JSON
    return data.get(name) if isinstance(data, dict) else None


def _whole(number: object) -> int:
    return number if type(number) is int and 0 < number < MOST_TOKENS else 0
