"""Any OpenAI-compatible endpoint, over chat completions.

A call is one request: nothing here tries again, the engine's retry layer is
the only one that does. The deadline is the whole call's. No request asks for
a response format: every answer is plain text, so all requests on a document
open with the same prefix, which endpoints keep (DESIGN, section 6).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pearl.llm.calls import ExecuteStep
from pearl.llm.completion import read_completion
from pearl.llm.failures import failure, read_complaint
from pearl.llm.forms import first_form
from pearl.llm.model import FINAL, ModelError, Reply, Request
from pearl.llm.reading import Reading
from pearl.llm.transport import Transport
from pearl.llm.wire import Writer
from pearl.values import canonical_json

if TYPE_CHECKING:
    from pearl.llm.settings import Settings

OPENAI = "https://api.openai.com/v1"
"""The endpoint where none is named."""

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
        self._final: ModelError | None = None
        url = settings.base_url or OPENAI
        self._transport = Transport(url, settings)
        self._writer = Writer(name, settings.temperature, settings.max_tokens)
        self._form = first_form(name, url, settings.prompt_cache)
        self._reading = Reading(name)

    @property
    def identity(self) -> str:
        sampling: dict[str, Any] = {}
        if self._settings.temperature is not None:
            sampling["temperature"] = self._settings.temperature
        if self._settings.max_tokens is not None:
            sampling["max_tokens"] = self._settings.max_tokens
        return canonical_json([self.name, self._settings.base_url, sampling])

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
        if isinstance(request.call, ExecuteStep) and request.call.document is not None:
            self._reading.check(request.call.document, reply.usage)
        return reply

    async def close(self) -> None:
        self._final = None
        await self._transport.close()

    async def _asked(self, request: Request) -> Reply:
        limit = self._settings.timeout
        try:
            async with asyncio.timeout(limit):
                return read_completion(await self._sent(request), self._hidden)
        except TimeoutError:
            raise ModelError("timeout", f"No answer within {limit:g} seconds.") from None
        except UnicodeEncodeError:
            raise ModelError(
                "request", "The prompt holds half a character, which cannot be sent."
            ) from None

    async def _sent(self, request: Request) -> bytes:
        """The body of an answer with a status of success."""
        form = self._form
        body = self._writer.body(request, form)
        while True:
            answer = await self._transport.post(body)
            if answer.status < 300:
                return answer.body
            complaint = read_complaint(answer.body, self._hidden)
            if answer.status in (400, 422):
                form = form.without(complaint.text)
            before, body = body, self._writer.body(request, form)
            if body == before:
                raise failure(answer.status, answer.headers, complaint)
            # No retry of a failure: what goes out is another request, without a field that the
            # endpoint does not take, and each field is given up once and for all.
            self._form = self._form.without(complaint.text)

    def _hidden(self, text: str) -> str:
        """A text of the endpoint's without the key, which some endpoints repeat."""
        secret = self._settings.api_key.get_secret_value()
        return text.replace(secret, "***") if len(secret) >= SECRET_LENGTH else text
