"""Any OpenAI-compatible endpoint, over chat completions.

Each answer is one request: the engine's retry layer is the only one that asks
again. It speaks HTTP through aiohttp itself; the endpoint's own client
library costs a millisecond of processor time a call, as much as everything
else that Pearl does for it.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from pearl.llm.calls import ExecuteStep
from pearl.llm.completion import read_completion
from pearl.llm.failures import connection_error, status_error
from pearl.llm.model import ModelError, Reply, Request, Usage
from pearl.llm.tokens import count_tokens
from pearl.llm.wire import CACHE_FIELDS, Form, is_openai, style_for
from pearl.values import canonical_json

if TYPE_CHECKING:
    import aiohttp

    from pearl.llm.settings import Settings

OPENAI = "https://api.openai.com/v1"
"""Where the endpoint is that needs no address."""

SHARE_READ = 0.75
"""An endpoint that reports fewer than this share of our own count has cut the prompt."""

WORTH_COUNTING = 8000
"""Characters below which a document is not counted."""

CONNECT = 20.0
"""Seconds in which a connection must come about; an answer may take far longer."""

LARGEST_BODY = 1 << 25
"""Bytes of an answer that are read."""

REFUSING = frozenset({"authentication", "quota"})
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
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._refused: ModelError | None = None
        self._url = (settings.base_url or OPENAI).rstrip("/") + "/chat/completions"
        sampling: dict[str, Any] = {}
        if settings.temperature is not None:
            sampling["temperature"] = settings.temperature
        own = is_openai(settings.base_url)
        self._form = Form(
            name,
            sampling,
            style_for(settings.prompt_cache, settings.base_url),
            "max_completion_tokens" if own else "max_tokens",
            settings.max_tokens,
        )

    @property
    def identity(self) -> str:
        sampling = dict(self._form.sampling)
        if self._settings.max_tokens is not None:
            sampling["max_tokens"] = self._settings.max_tokens
        return canonical_json([self.name, self._settings.base_url, sampling])

    @property
    def notice(self) -> str:
        return ""

    async def answer(self, request: Request) -> Reply:
        if self._refused:
            raise ModelError(self._refused.reason, str(self._refused))
        try:
            reply = await self._asked(request)
        except ModelError as error:
            if error.reason in REFUSING:
                self._refused = error
            raise
        self._check_read(request, reply.usage)
        return reply

    async def close(self) -> None:
        self._refused = None
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _asked(self, request: Request) -> Reply:
        while True:
            try:
                return await self._sent(request)
            except ModelError as error:
                # Not a second try of the same request, but another one: without the field that
                # this endpoint does not know.
                form = _without(self._form, str(error)) if error.reason == "request" else None
                if form is None:
                    raise
                self._form = form

    async def _sent(self, request: Request) -> Reply:
        import aiohttp

        try:
            body = self._form.body(request)
        except UnicodeEncodeError:
            raise ModelError(
                "request", "The prompt holds half a character, which cannot be sent."
            ) from None
        limit = self._settings.timeout
        try:
            async with (
                asyncio.timeout(limit),
                self._opened().post(self._url, data=body, allow_redirects=False) as response,
            ):
                data = await _read(response)
        except TimeoutError:
            raise ModelError("timeout", f"No answer within {limit:g} seconds.") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise connection_error(error) from None
        if response.status != 200:
            raise status_error(response.status, response.headers, data, self._hidden)
        return read_completion(data, self._hidden)

    def _secret(self) -> str:
        return self._settings.api_key.get_secret_value()

    def _hidden(self, text: str) -> str:
        """A text of the endpoint's without the key, which some endpoints repeat."""
        secret = self._secret()
        return text.replace(secret, "***") if len(secret) >= SECRET_LENGTH else text

    def _opened(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if self._session is None or self._loop is not loop:
            import aiohttp

            limit = self._settings.timeout
            self._loop = loop
            self._session = aiohttp.ClientSession(
                headers=self._headers(),
                # The engine decides how many calls are under way.
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(None, connect=min(limit, CONNECT)),
                trust_env=True,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    def _headers(self) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "User-Agent": f"pearl/{version('pearl')}",
        }
        if self._secret():
            headers["Authorization"] = f"Bearer {self._secret()}"
        for name, setting in (
            ("OpenAI-Organization", "OPENAI_ORG_ID"),
            ("OpenAI-Project", "OPENAI_PROJECT_ID"),
        ):
            if value := os.environ.get(setting, "").strip():
                headers[name] = value
        return headers

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
                usage=usage,
            )


def _without(form: Form, said: str) -> Form | None:
    """The form without what an endpoint says it does not know; None where it says no such thing."""
    if form.caching != "off" and any(name in said for name in CACHE_FIELDS):
        return replace(form, caching="off")
    if form.max_tokens is not None and form.reply_field in said:
        other = "max_tokens" if form.reply_field == "max_completion_tokens" else None
        if other is None and "max_completion_tokens" in said:
            return replace(form, reply_field="max_completion_tokens")
        if other == "max_tokens" and "nsupported" in said:
            return replace(form, reply_field="max_tokens")
    return None


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """An answer's body, up to a limit.

    Raises:
        ModelError: it is larger.
    """
    length = response.content_length
    if length is not None and length <= LARGEST_BODY:
        return await response.read()
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > LARGEST_BODY:
            response.close()
            raise ModelError(
                "reply", f"The endpoint's answer is larger than {LARGEST_BODY >> 20} MB."
            )
    return b"".join(parts)
