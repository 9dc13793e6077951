"""Any OpenAI-compatible endpoint, over chat completions.

The SDK owns retries (408, 409, 429 and 5xx, twice) and nothing else here
retries. Its timeout is per read, so the deadline of a whole call is ours.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pearl.llm.calls import ExecuteStep
from pearl.llm.model import ModelError, Reply, Request, Usage
from pearl.llm.tokens import count_tokens
from pearl.values import canonical_json

if TYPE_CHECKING:
    import openai

    from pearl.llm.settings import Settings

SHARE_READ = 0.75
"""An endpoint that reports fewer than this share of our own count has cut the prompt."""

WORTH_COUNTING = 8000
"""Characters below which a document is not counted."""


class OpenAI:
    """A model of an OpenAI-compatible endpoint."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.name = name
        self._settings = settings
        self._client: openai.AsyncOpenAI | None = None
        sampling: dict[str, Any] = {}
        if settings.temperature is not None:
            sampling["temperature"] = settings.temperature
        if settings.max_tokens is not None:
            sampling["max_tokens"] = settings.max_tokens
        self._sampling = sampling

    @property
    def identity(self) -> str:
        return canonical_json([self.name, self._settings.base_url, self._sampling])

    @property
    def notice(self) -> str:
        return ""

    async def answer(self, request: Request) -> Reply:
        import openai

        client = self._opened()
        try:
            async with asyncio.timeout(self._settings.timeout):
                reply = await client.chat.completions.create(
                    model=self.name,
                    messages=list(request.messages),  # type: ignore[arg-type]
                    **self._sampling,
                )
        except TimeoutError:
            limit = self._settings.timeout
            raise ModelError("timeout", f"No answer within {limit:g} seconds.") from None
        except openai.APIError as error:
            raise _model_error(error, self._secret()) from None
        read = _read(reply)
        self._check_read(request, read.usage)
        return read

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _secret(self) -> str:
        return self._settings.api_key.get_secret_value()

    def _opened(self) -> openai.AsyncOpenAI:
        if self._client is None:
            import openai

            self._client = openai.AsyncOpenAI(
                # A server of one's own often takes no key; the SDK insists on some text.
                api_key=self._secret() or "none",
                base_url=self._settings.base_url or None,
                timeout=self._settings.timeout,
                http_client=openai.DefaultAioHttpClient(),
            )
        return self._client

    def _check_read(self, request: Request, usage: Usage) -> None:
        document = request.call.document if isinstance(request.call, ExecuteStep) else None
        if not document or not usage.prompt_tokens or len(document.text) < WORTH_COUNTING:
            return
        # The document alone, which is counted once, is all but the whole prompt.
        counted = count_tokens(document.text, self.name)
        if usage.prompt_tokens < SHARE_READ * counted:
            raise ModelError(
                "cut",
                f"The endpoint read {usage.prompt_tokens:,} of about {counted:,} tokens, so it "
                "cut the document: raise its context length, or use a model with a longer one.",
            )


def _read(reply: Any) -> Reply:  # noqa: ANN401 - the SDK validates almost nothing
    """The text and usage of a completion, whatever shape it really has."""
    choices = getattr(reply, "choices", None)
    if not isinstance(choices, list) or not choices:
        kind = "a page" if isinstance(reply, str) else type(reply).__name__
        raise ModelError(
            "reply", f"The endpoint sent {kind} instead of a completion: check OPENAI_BASE_URL."
        )
    message = getattr(choices[0], "message", None)
    refusal = getattr(message, "refusal", None)
    text = getattr(message, "content", None)
    if isinstance(refusal, str) and refusal and not text:
        raise ModelError("reply", f"The model refused: {' '.join(refusal.split())[:200]}")
    if not isinstance(text, str) or not text.strip():
        raise ModelError("reply", "The model sent an empty answer.")
    finished = getattr(choices[0], "finish_reason", None)
    return Reply(text, _usage(getattr(reply, "usage", None)), complete=finished != "length")


def _usage(usage: Any) -> Usage:  # noqa: ANN401 - as above
    details = getattr(usage, "prompt_tokens_details", None)
    return Usage(
        _whole(getattr(usage, "prompt_tokens", 0)),
        _whole(getattr(usage, "completion_tokens", 0)),
        _whole(getattr(details, "cached_tokens", 0)),
    )


def _whole(number: object) -> int:
    return number if isinstance(number, int) and number > 0 else 0


def _model_error(error: openai.APIError, secret: str) -> ModelError:
    """The SDK's error as one of ours: what happened, what to do, and no key."""
    import openai

    said = " ".join(str(getattr(error, "message", "") or error).split())[:300]
    if secret:
        said = said.replace(secret, "***")
    code = getattr(error, "code", None)
    if code == "insufficient_quota":
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
        case openai.APITimeoutError():
            return ModelError("timeout", "The endpoint did not answer in time.")
        case openai.APIConnectionError():
            return ModelError(
                "connection", "The endpoint cannot be reached: check OPENAI_BASE_URL."
            )
        case openai.InternalServerError():
            return ModelError("server", f"The endpoint failed: {said}")
        case openai.APIResponseValidationError():
            return ModelError("reply", "The endpoint's answer is not a completion.")
        case _:
            return ModelError("request", f"The endpoint refused the request: {said}")
