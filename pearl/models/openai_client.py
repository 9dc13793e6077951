"""Models asked through OpenAI's official client: on Azure, or through a client that a user passes.

The client brings its own authentication, proxies and headers. Its answers are read as those of any
endpoint: it is told not to retry and not to follow redirects, and it gives the raw bytes, whose
number is bounded; only the body of an error it reads whole.

All other calls go over `pearl.models.transport`, because the client takes a second to load and
several times as long for each call (benchmarks/engine.py).
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal
from urllib.parse import unquote_plus, urlsplit, urlunsplit

from pearl.lang.errors import InputError
from pearl.lang.text import MASKED_NAME
from pearl.models.base import ModelError
from pearl.models.openai import Endpoint, OpenAI, RequestWriter, ResponsesWriter
from pearl.models.secrets import is_key, redaction
from pearl.models.settings import Settings, make_settings, renamed
from pearl.models.transport import FAULTS, Incoming, T, Transport

if TYPE_CHECKING:
    from openai import AsyncOpenAI

APIS = {"chat": RequestWriter, "responses": ResponsesWriter}

AZURE = {"OPENAI_BASE_URL": "AZURE_OPENAI_ENDPOINT", "OPENAI_API_KEY": "AZURE_OPENAI_API_KEY"}
HANDED_OVER = {
    "OPENAI_BASE_URL": "the client's base_url",
    "OPENAI_API_KEY": "how the client signs in",
}
"""What stands in messages in place of the environment's settings that other models read."""


class OpenAIModel(OpenAI):
    """A model asked through a client of the official SDK.

    The client is not closed: that is its owner's task.

    Args:
        client: an ``AsyncOpenAI``, an ``AsyncAzureOpenAI``, or an object that behaves as one.
        model: the model's name, or that of its deployment on Azure.
        api: ``chat`` for chat completions, ``responses`` for the Responses API.
        settings: the sampling, and the timeout of a call; by default those of the environment.

    Raises:
        InputError: the client is not asynchronous, or a setting or the API is wrong.
    """

    def __init__(
        self,
        client: AsyncOpenAI,
        model: str,
        api: Literal["chat", "responses"] = "chat",
        settings: Settings | None = None,
    ) -> None:
        if api not in APIS:
            raise InputError(f"There is no API {api}: use chat or responses.")
        transport = ClientTransport(lambda: client, settings)
        super().__init__(Endpoint(model, transport.settings, APIS[api], lambda: transport))


def azure_transport() -> ClientTransport:
    """The transport to Azure, from the environment variables of the SDK, or an `InputError`."""
    names = ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "OPENAI_API_VERSION")
    missing = [name for name in names if not os.environ.get(name, "").strip()]
    if missing:
        raise InputError(f"A model on Azure needs {' and '.join(missing)}: set it, or them.")
    from openai import AsyncAzureOpenAI

    settings, version = make_settings(AZURE), os.environ["OPENAI_API_VERSION"].strip()
    endpoint, key = settings.base_url, settings.api_key.get_secret_value()
    return ClientTransport(
        partial(AsyncAzureOpenAI, azure_endpoint=endpoint, api_key=key, api_version=version),
        settings,
        names=AZURE,
        owned=True,
    )


class ClientTransport(Transport):
    """Sends through a client of the official SDK.

    Args:
        opens: makes or gives the client.
        settings: sampling and the timeout of a call; by default those of the environment.
        names: what stands in messages in place of the names of settings.
        owned: whether `close` closes the client, after which a new one is opened.
    """

    def __init__(
        self,
        opens: Callable[[], AsyncOpenAI],
        settings: Settings | None = None,
        names: Mapping[str, str] = HANDED_OVER,
        owned: bool = False,
    ) -> None:
        self._opens, self._names, self._owned = opens, names, owned
        self._client: AsyncOpenAI | None = opens()
        self._loop: asyncio.AbstractEventLoop | None = None
        if not iscoroutinefunction(getattr(self._client, "post", None)):
            raise InputError("OpenAIModel needs an asynchronous client of the SDK: AsyncOpenAI.")
        # An address as it may be shown and kept: without a name, a password or a query.
        parts = urlsplit(str(self._client.base_url))
        shown = (parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", "")
        settings = settings or make_settings()
        super().__init__(settings.model_copy(update={"base_url": urlunsplit(shown)}))
        # Everything in the headers that the client signs in with.
        self._secrets: dict[str, None] = {}
        key = getattr(self._client, "api_key", None)
        self._note({"key": key if isinstance(key, str) else ""})
        if "azure" in type(self._client).__name__.lower():
            self.batch_path = "/chat/completions"

    def redact(self, text: str) -> str:
        # The longest first, as one may begin another. Tokens that the client renews are added.
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = redaction([secret])(text)
        return text

    def named(self, message: str) -> str:
        return renamed(message, self._names)

    async def request(
        self,
        method: str,
        *path: str,
        read: Callable[[Incoming], Awaitable[T]],
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        upload: BinaryIO | None = None,
        pause: float | None = None,
    ) -> T:
        headers = {"X-Stainless-Raw-Response": "stream"}
        options: dict[str, Any] = {"max_retries": 0, "follow_redirects": False, "headers": headers}
        options["params"] = dict(query or {})
        if pause is not None:
            options["timeout"] = pause
        sent: dict[str, Any] = {"cast_to": object, "options": options}
        if upload is not None:
            file = (Path(upload.name).name, upload, "application/jsonl")
            sent |= {"body": {"purpose": "batch"}, "files": [("file", file)]}
            headers["Content-Type"] = "multipart/form-data"
        elif body:
            # As an object, from which an Azure client takes the deployment for the address.
            sent["body"] = json.loads(body)
        with self._mapped_errors(), self.calling():
            response = await self._send(method, "/" + "/".join(path), sent)
            incoming = Incoming(response.status_code, response.headers, self._body(response))
            try:
                return await read(incoming)
            finally:
                await response.aclose()

    async def _send(self, method: str, path: str, sent: dict[str, Any]) -> Any:  # noqa: ANN401
        """The response of httpx, whose body has not been read."""
        from openai import APIStatusError

        self._client = client = self._client or self._opens()
        loop, last = asyncio.get_running_loop(), self._loop
        self._loop = loop
        if last is not None and last is not loop and last.is_closed():
            await _forget_connections(client)
        send = client.get if method == "GET" else client.post
        try:
            response = (await send(path, **sent)).http_response
        except APIStatusError as error:
            response = error.response
        self._note(response.request.headers)
        for pair in str(response.request.url.query, "utf-8", "replace").split("&"):
            name, _, value = pair.partition("=")
            if name != "api-version" and name not in sent["options"]["params"]:
                self._hide(value, unquote_plus(value))
        return response

    def _note(self, headers: Mapping[str, str]) -> None:
        """Remember what a request's headers sign in with."""
        for name, text in headers.items():
            if MASKED_NAME.search(name):
                # A cookie header has several, each as name=value.
                parts = {*text.split(), *re.split(r"[\s;,]+", text)}
                self._hide(*parts, *(part.partition("=")[2] for part in parts))

    def _hide(self, *secrets: str) -> None:
        for secret in secrets:
            if is_key(secret):
                self._secrets[secret] = None

    async def _body(self, response: Any) -> AsyncIterator[bytes]:  # noqa: ANN401 - of httpx
        with self._mapped_errors():
            if response.is_stream_consumed:
                yield response.content
                return
            async for piece in response.aiter_bytes():
                yield piece

    @contextmanager
    def _mapped_errors(self) -> Iterator[None]:
        """Turn errors of the client into a `ModelError` that says what to do. The client's own
        words are not repeated, as they may hold a secret."""
        from openai import APIConnectionError, OpenAIError

        try:
            yield
            return
        except ModelError:
            raise
        except APIConnectionError as error:
            cause: BaseException = error.__cause__ or error
        except OpenAIError as error:
            raise ModelError(
                "authentication", f"The client cannot sign in ({type(error).__name__})."
            ) from None
        except Exception as error:  # noqa: BLE001 - a person's own code is behind it
            cause = error
        raise ModelError(*_fault(cause)) from None

    async def close(self) -> None:
        client = self._client
        if self._owned and client is not None and not self.called:
            self._client = None
            with suppress(RuntimeError):
                await client.close()


async def _forget_connections(client: AsyncOpenAI) -> None:
    """Drop a client's connections that belong to an event loop that has ended.

    httpx would send over them and fail to read the reply, which is paid for all the same. Short of
    closing the client, it has no public way to drop them.
    """
    http = getattr(client, "_client", None)
    mounted = getattr(http, "_mounts", {}).values()
    for transport in (getattr(http, "_transport", None), *mounted):
        with suppress(RuntimeError):
            if transport is not None:
                await transport.aclose()


_KINDS = (
    (("ConnectTimeout", "ConnectError", "PoolTimeout", "ProxyError"), "unreachable"),
    (("InvalidURL", "UnsupportedProtocol", "LocalProtocolError", "ValueError"), "address"),
    (("ReadError", "WriteError", "CloseError", "NetworkError", "OSError"), "broken"),
    # A connection of an event loop that has ended.
    (("RuntimeError",), "broken"),
)
"""Names of the errors of httpx and httpx2, either of which a client may use."""


def _fault(cause: BaseException) -> tuple[str, str]:
    """An error's reason and message."""
    names = {kind.__name__ for kind in type(cause).__mro__}
    error: BaseException | None = cause
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return FAULTS["certificate"]
        error = error.__cause__ or error.__context__
    if "RemoteProtocolError" in names:
        words = str(cause).lower()
        if "without sending a response" in words:
            return FAULTS["broken"]
        return FAULTS["half" if "peer closed connection" in words else "protocol"]
    for kinds, fault in _KINDS:
        if names.intersection(kinds):
            return FAULTS[fault]
    if "TimeoutException" in names:
        return "timeout", "The endpoint did not answer in the time that its client allows."
    return "request", f"The client failed before it sent anything ({type(cause).__name__})."
