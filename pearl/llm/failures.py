"""The SDK's errors as ours: what happened and what to do, in one line, without a key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pearl.llm.model import ModelError

if TYPE_CHECKING:
    import openai

QUOTA = "insufficient_quota"
"""The code of an error that no waiting mends."""

SHOWN = 200
"""Characters of an endpoint's own words that a message repeats."""


def model_error(error: openai.APIError, hidden: Callable[[str], str]) -> ModelError:
    """An error of the SDK as one of ours.

    Args:
        error: what the SDK raised, after its own retries.
        hidden: takes the key out of a text.
    """
    import openai

    said = _said(error, hidden)
    if QUOTA in (getattr(error, "code", None), getattr(error, "type", None)):
        return ModelError("quota", "The account's quota is used up: nothing more can be asked.")
    match error:
        case openai.AuthenticationError() | openai.PermissionDeniedError():
            return ModelError(
                "authentication", "The endpoint refuses the key: check OPENAI_API_KEY."
            )
        case openai.NotFoundError():
            return ModelError(
                "request",
                f"The endpoint knows no such model or address: {said} "
                "Check --model and OPENAI_BASE_URL.",
            )
        case openai.RateLimitError():
            return ModelError("rate", f"The endpoint turns calls away: {said} Try again later.")
        case openai.APIConnectionError() if not any(_causes(error, TimeoutError)):
            # Its transport calls every connection that fails a timeout.
            return ModelError(
                "connection", "The endpoint cannot be reached: check OPENAI_BASE_URL."
            )
        case openai.APIConnectionError() | openai.APIStatusError(status_code=408):
            return ModelError("timeout", "The endpoint did not answer in time.")
        case openai.InternalServerError():
            return ModelError("server", f"The endpoint failed: {said}")
        case openai.APIResponseValidationError():
            return ModelError("reply", "The endpoint's answer is not a completion.")
        case _:
            return ModelError("request", f"The endpoint refused the request: {said}")


def _causes(error: BaseException, kind: type[BaseException]) -> Iterator[bool]:
    cause = error.__cause__ or error.__context__
    while cause is not None:
        yield isinstance(cause, kind)
        cause = cause.__cause__ or cause.__context__


def _said(error: openai.APIError, hidden: Callable[[str], str]) -> str:
    """The endpoint's own words, as one sentence; a web page has none worth repeating."""
    body = error.body
    told = body.get("message") if isinstance(body, dict) else body
    text = " ".join(hidden(told).split()) if isinstance(told, str) else ""
    if not text or text.startswith("<"):
        status = getattr(error, "status_code", None)
        return f"it says {status} and no more." if status else "it does not say why."
    text = text[:SHOWN]
    return text if text.endswith((".", "!", "?")) else f"{text}."
