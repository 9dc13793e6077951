"""Any OpenAI-compatible endpoint, over chat completions.

The SDK owns retries (408, 409, 429 and 5xx, twice) and nothing else here
retries. Its timeout is per read, so the deadline of a whole call is ours.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pearl.llm.calls import ExecuteStep
from pearl.llm.failures import QUOTA, model_error
from pearl.llm.model import ModelError, Reply, Request, Usage
from pearl.llm.tokens import count_tokens
from pearl.values import canonical_json

if TYPE_CHECKING:
    import httpx2
    import openai

    from pearl.llm.settings import Settings

SHARE_READ = 0.75
"""An endpoint that reports fewer than this share of our own count has cut the prompt."""

WORTH_COUNTING = 8000
"""Characters below which a document is not counted."""

CONNECT = 20.0
"""Seconds in which a connection must come about; an answer may take far longer."""

FINAL = frozenset({"authentication", "quota"})
"""Reasons that the next call would meet again."""

SECRET_LENGTH = 8
"""A shorter key ("none", "ollama") is a stand-in, and an ordinary word of many texts."""


class OpenAI:
    """A model of an OpenAI-compatible endpoint.

    Once the endpoint has refused the key, or the quota is used up, no further
    call is sent until the model is closed.

    Args:
        name: the model's, as the endpoint knows it.
        settings: where the endpoint is, and how it is to sample.
    """

    def __init__(self, name: str, settings: Settings) -> None:
        self.name = name
        self._settings = settings
        self._client: openai.AsyncOpenAI | None = None
        self._final: ModelError | None = None
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
        if self._final:
            raise ModelError(self._final.reason, str(self._final))
        try:
            reply = await self._asked(request)
        except ModelError as error:
            if error.reason in FINAL:
                self._final = error
            raise
        self._check_read(request, reply.usage)
        return reply

    async def close(self) -> None:
        self._final = None
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def _asked(self, request: Request) -> Reply:
        import openai

        from pearl.llm.completion import read_completion

        client = self._opened()
        try:
            async with asyncio.timeout(self._settings.timeout):
                sent = await client.chat.completions.create(
                    model=self.name,
                    messages=list(request.messages),  # type: ignore[arg-type]
                    **self._sampling,
                )
            return read_completion(sent, self._hidden)
        except TimeoutError:
            limit = self._settings.timeout
            raise ModelError("timeout", f"No answer within {limit:g} seconds.") from None
        except openai.APIError as error:
            raise model_error(error, self._hidden) from None
        except UnicodeEncodeError:
            raise ModelError(
                "request", "The prompt holds half a character, which cannot be sent."
            ) from None
        except ValueError:
            # The SDK lets JSON that cannot be decoded through as Python's own error.
            raise ModelError(
                "reply", "The endpoint's answer is damaged: it is not whole JSON."
            ) from None

    def _secret(self) -> str:
        return self._settings.api_key.get_secret_value()

    def _hidden(self, text: str) -> str:
        """A text of the endpoint's without the key, which some endpoints repeat."""
        secret = self._secret()
        return text.replace(secret, "***") if len(secret) >= SECRET_LENGTH else text

    def _opened(self) -> openai.AsyncOpenAI:
        if self._client is None:
            import openai

            limit = self._settings.timeout
            self._client = openai.AsyncOpenAI(
                # A server of one's own often takes no key; the SDK insists on some text.
                api_key=self._secret() or "none",
                base_url=self._settings.base_url or None,
                timeout=openai.Timeout(limit, connect=min(limit, CONNECT)),
                http_client=openai.DefaultAioHttpClient(event_hooks={"response": [_final_quota]}),
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


async def _final_quota(response: httpx2.Response) -> None:
    """Tell the SDK not to retry where the quota is used up; it would with any 429."""
    if response.status_code == 429:
        await response.aread()
        if QUOTA.encode() in response.content:
            response.headers["x-should-retry"] = "false"
