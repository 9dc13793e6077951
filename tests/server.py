"""A real OpenAI-compatible server on loopback that records what it is asked, and can misbehave."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any, Self, TypeAlias

import pytest
from aiohttp import web

from pearl.runtime.context import learned_window

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
Answer: TypeAlias = str | dict[str, Any] | Handler
Script: TypeAlias = Callable[[dict[str, Any]], Answer] | Sequence[Answer]
Serve: TypeAlias = "Callable[..., Server]"

KEY = "sk-feedfeedfeedfeedfeedfeedfeedfeed"

_KINDS = (
    ("plan", "write reading plans"),
    ("step", "carry out one step"),
    ("mine", "name the reading actions"),
    ("label", "sort questions"),
    ("condense", "keep a library"),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came over the wire."""

    body: dict[str, Any]
    headers: Mapping[str, str]
    url: str = ""

    @property
    def messages(self) -> list[dict[str, str]]:
        return list(self.body.get("messages") or self.body["input"])

    @property
    def text(self) -> str:
        """Every message, to look things up in."""
        return "\n".join(_text(message["content"]) for message in self.messages)

    @property
    def kind(self) -> str:
        """Which of Pearl's prompts it is: plan, correct, refine, step, map, mine or label."""
        system, last = self.messages[0]["content"], _text(self.messages[-1]["content"])
        kind = next((one for one, words in _KINDS if words in system), "map")
        if kind == "plan" and len(self.messages) > 2:
            return "refine" if "was judged wrong" in last else "correct"
        return kind


class Loopback:
    """A server on loopback, with a thread and an event loop of its own within ``with``.

    What inherits from it has a ``url``, and says in `routes` what it answers.
    """

    tls: ssl.SSLContext | None = None
    url: str
    path = "/v1"
    """With which its address ends."""

    def routes(self, app: web.Application) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        assert started.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _run(self, started: threading.Event) -> None:
        self._loop.run_until_complete(self._serve(started))
        self._loop.close()

    async def _serve(self, started: threading.Event) -> None:
        self._stop = asyncio.Event()
        app = web.Application(client_max_size=2**28)
        self.routes(app)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self.tls).start()
        scheme = "https" if self.tls else "http"
        self.port = runner.addresses[0][1]
        self.url = f"{scheme}://127.0.0.1:{self.port}{self.path}"
        started.set()
        await self._stop.wait()
        await runner.cleanup()
        # Handlers that were to stall for ever.
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


@dataclass
class Server(Loopback):
    """Runs in a thread of its own from ``with`` to the end of the block.

    Args:
        script: what to answer: a function of the request's JSON, or answers
            in order, the last of which repeats. A text is a completion, a
            dictionary is JSON sent as it is, a handler does what it likes.
        tls: speaks TLS with this certificate, where there is one.
    """

    script: Script
    asked: list[Asked] = field(default_factory=list)
    url: str = ""
    tls: ssl.SSLContext | None = None
    reached: threading.Event = field(default_factory=threading.Event)
    """Set once anything was asked."""

    @property
    def kinds(self) -> list[str]:
        return [one.kind for one in self.asked]

    def steps(self) -> list[Asked]:
        return [one for one in self.asked if one.kind == "step"]

    def routes(self, app: web.Application) -> None:
        app.router.add_post("/v1/chat/completions", self._answer)
        app.router.add_post("/v1/responses", self._answer)
        app.router.add_post("/openai/deployments/{name}/chat/completions", self._answer)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        number = len(self.asked)
        self.asked.append(Asked(body, dict(request.headers), str(request.url)))
        self.reached.set()
        if callable(self.script):
            answer = self.script(body)
        else:
            answer = self.script[min(number, len(self.script) - 1)]
        if isinstance(answer, str):
            answer = completion(answer)
        if isinstance(answer, dict) and request.path.endswith("/responses"):
            answer = response(answer)
        if isinstance(answer, dict):
            return web.json_response(answer)
        return await answer(request)


def certified(folder: Path) -> ssl.SSLContext:
    """What a server speaks TLS with: a certificate that nobody signed, the folder's cert.pem."""
    program = which("openssl")
    if not program:
        pytest.skip("openssl, which makes a certificate, is not here")
    cert, key = folder / "cert.pem", folder / "key.pem"
    made = [program, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    made += ["-nodes", "-subj", "/CN=it", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*made, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context


def starting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """A fixture's: starts servers, and points the environment at each and at its settings."""
    monkeypatch.delenv("PEARL_PROMPT_CACHE", raising=False)
    # An earlier server may have had the same port: nothing that is remembered of it counts.
    learned_window.cache_clear()
    with ExitStack() as stack:
        monkeypatch.setenv("XDG_CACHE_HOME", stack.enter_context(TemporaryDirectory()))

        def start(script: Script, **settings: str) -> Server:
            server = stack.enter_context(Server(script))
            environment = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.url}
            for name, value in {**environment, "PEARL_MODEL": "some-model", **settings}.items():
                monkeypatch.setenv(name, value)
            return server

        yield start


def completion(
    content: Any, *, usage: Any = None, finish: str = "stop", **message: Any
) -> dict[str, Any]:
    """A chat completion as endpoints send it; ``usage`` and more of the message as given."""
    said = {"role": "assistant", "content": content, **message}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "test"}
    choice = {"index": 0, "message": said, "finish_reason": finish}
    return {**head, "choices": [choice], "usage": usage}


def response(completion: dict[str, Any]) -> dict[str, Any]:
    """The same as the Responses API has it; what is no completion stays as it is."""
    usage = completion.get("usage") or {}
    named = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
    counts = {ours: usage.get(theirs) for ours, theirs in named.items()}
    counts["input_tokens_details"] = usage.get("prompt_tokens_details")
    if not completion.get("choices"):
        return {**completion, "usage": counts}
    choice = completion["choices"][0]
    said, finish = choice["message"], choice["finish_reason"]
    parts = [{"type": "output_text", "text": said["content"], "annotations": []}]
    if said.get("refusal"):
        parts = [{"type": "refusal", "refusal": said["refusal"]}]
    elif said["content"] is None:
        parts = []
    why = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(finish)
    return {
        "id": "resp_1",
        "object": "response",
        "status": "incomplete" if why else "completed",
        "incomplete_details": {"reason": why} if why else None,
        "error": None,
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"text": "hm"}]},
            {"type": "message", "role": "assistant", "content": parts},
        ],
        "usage": counts,
    }


def _text(content: str | list[dict[str, Any]]) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def failing(
    status: int, message: str = "no", code: str = "", headers: Mapping[str, str] | None = None
) -> Handler:
    """An error as OpenAI sends it."""
    error = {"error": {"message": message, "type": "error", "code": code or None}}
    return answering(status, json.dumps(error), "application/json", **(headers or {}))


def sending(body: str | bytes, content_type: str = "application/json") -> Handler:
    """Any bytes with status 200."""
    return answering(200, body, content_type)


def answering(
    status: int, body: str | bytes = "", content_type: str = "text/html", **headers: str
) -> Handler:
    """Any status, body and headers; an underscore in a header's name stands for a hyphen."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}

    async def handle(_: web.Request) -> web.StreamResponse:
        data = body.encode() if isinstance(body, str) else body
        return web.Response(body=data, status=status, content_type=content_type, headers=named)

    return handle


def flooding(megabytes: int, declared: bool = False) -> Handler:
    """An answer of this size, that is declared in its head or only comes."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if declared:
            response.content_length = megabytes << 20
        response.content_type = "application/json"
        with suppress(ConnectionError, asyncio.CancelledError):
            await response.prepare(request)
            for _ in range(megabytes):
                await response.write(b" " * (1 << 20))
        return response

    return handle


def stalling(status: int = 200, begun: bytes = b"", **headers: str) -> Handler:
    """Sends a head and the beginning of a body, JSON if not said otherwise, and then nothing for
    ever; an underscore in a header's name stands for a hyphen."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}

    async def handle(request: web.Request) -> web.StreamResponse:
        head = {"Content-Type": "application/json", **named}
        response = web.StreamResponse(status=status, headers=head)
        with suppress(ConnectionError, asyncio.CancelledError):
            await response.prepare(request)
            await response.write(begun)
            await asyncio.Event().wait()
        return response

    return handle


async def resetting(request: web.Request) -> web.StreamResponse:
    """Drops the connection without a word."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def breaking_off(request: web.Request) -> web.StreamResponse:
    """Promises more bytes than it sends."""
    response = web.StreamResponse(headers={"Content-Length": "4000"})
    response.content_type = "application/json"
    await response.prepare(request)
    await response.write(json.dumps(completion("half")).encode()[:60])
    assert request.transport is not None
    request.transport.abort()
    return response


async def dripping(request: web.Request) -> web.StreamResponse:
    """Sends a byte now and then, for ever: no single read ever takes long."""
    response = web.StreamResponse()
    response.content_type = "application/json"
    with suppress(ConnectionError, asyncio.CancelledError):
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.02)
    return response


@dataclass
class Meeting:
    """Answers only once this many requests wait at the same time."""

    count: int
    text: str
    came: int = 0
    whole: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, _: web.Request) -> web.StreamResponse:
        self.came += 1
        if self.came >= self.count:
            self.whole.set()
        try:
            await asyncio.wait_for(self.whole.wait(), 30)
        except TimeoutError:
            return web.json_response({"error": {"message": "nobody else came"}}, status=400)
        return web.json_response(completion(self.text))
