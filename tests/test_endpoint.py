"""One call to a real HTTP server on loopback, which behaves or does not.

Nothing here is tried again: every failure is one request, but where the test says otherwise.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import tracemalloc
from base64 import b64encode
from email.utils import formatdate
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import pytest
from aiohttp import web

import pearl
from pearl.lang.source import Source
from pearl.models.base import Model, ModelError, Reply, Request, Usage
from pearl.models.endpoint_replies import Complaint, complaint_of, failure
from pearl.models.openai import Endpoint, OpenAI, RequestFormat, RequestWriter
from pearl.models.openai_client import HANDED_OVER
from pearl.models.settings import Settings
from pearl.prompts.calls import ExecuteStep, MapAnswer, Message
from pearl.prompts.render import document_block, render
from tests.server import (
    KEY,
    Serve,
    Server,
    answering,
    breaking_off,
    certified,
    completion,
    dripping,
    failing,
    flooding,
    resetting,
    sending,
    stalling,
)

TOWN = Source("town.txt", "Ada lives in Ulm. Bo lives in Kiel.\n\nNobody lives in Rest.\n")
PAID = {"prompt_tokens": 70, "completion_tokens": 5}


def sdk(api: str) -> Model:
    """The same model, asked through the official client."""
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    settings = Settings()
    client = AsyncOpenAI(
        api_key=settings.api_key.get_secret_value() or "none",
        base_url=settings.url,
        # Each client would read all of the system's certificates anew.
        http_client=DefaultAsyncHttpxClient(verify=TRUSTED),
    )
    return pearl.OpenAIModel(client=client, model="some-model", api=api)


WAYS = {
    "chat": pearl.choose_model,
    "responses": lambda: pearl.choose_model("responses:some-model"),
    "SDK, chat": lambda: sdk("chat"),
    "SDK, responses": lambda: sdk("responses"),
}
"""How an endpoint is asked; what it does wrong is told alike."""

TRANSPORTS = ("chat", "SDK, chat")
TRUSTED = ssl.create_default_context()


def short(*words: str) -> Request:
    """A call without a document."""
    system, user = words if len(words) == 2 else ("be brief", "A or B?")
    messages: tuple[Message, ...] = (
        {"role": "system", "content": system},
        {"role": "user", "content": user},
    )
    return Request(MapAnswer("q", "a", ("x", "y")), messages, "map", "key")


def step(document: Source = TOWN, written: str = 'x = FIND_EVENT(CTX, "a fire")') -> Request:
    """A step's call on a document, as the executor makes it."""
    parsed = pearl.parse(f"{written} : Find it").plan.steps[0]
    call = ExecuteStep(document, pearl.load_library().actions[parsed.action], parsed, ())
    return Request(
        call, render(call), "step/x", "key", len(document_block(document)), document.digest
    )


def answered(*requests: Request, model: Model | None = None) -> list[Reply]:
    """The replies to calls made one after another with one model, which is closed afterwards."""
    model = model or pearl.choose_model()

    async def each() -> list[Reply]:
        try:
            return [await model.answer(request) for request in requests]
        finally:
            await model.close()

    return asyncio.run(each())


def failed(request: Request | None = None, model: Model | None = None) -> ModelError:
    """What a call fails with."""
    with pytest.raises(ModelError) as caught:
        answered(request or short(), model=model)
    assert len(str(caught.value).splitlines()) == 1
    return caught.value


# --- what is sent ---


def test_what_is_sent_is_what_was_rendered(serve: Serve):
    server = serve(["fine"])
    request = short("be brief", "ü\u2028\x00 </s> \U0001f600 \\ \" '")
    assert answered(request)[0].text == "fine"
    assert server.asked[0].body == {
        "model": "some-model",
        "temperature": 0,
        "messages": list(request.messages),
    }


def test_headers_say_who_asks(serve: Serve):
    server = serve(["fine"], OPENAI_API_KEY="")
    answered(short())
    assert not {"Authorization", "OpenAI-Organization"} & set(server.asked[0].headers)
    server = serve(["fine"], OPENAI_ORG_ID="org-1", OPENAI_PROJECT_ID="proj-2\n")
    answered(short())
    headers = server.asked[0].headers
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert headers["Content-Type"] == "application/json"
    assert headers["User-Agent"].startswith("pearl/")
    assert (headers["OpenAI-Organization"], headers["OpenAI-Project"]) == ("org-1", "proj-2")


@pytest.mark.parametrize("ending", ["", "/", "?api-version=1", "/?api-version=1"])
def test_an_address_may_end_as_it_likes(serve: Serve, monkeypatch: pytest.MonkeyPatch, ending: str):
    server = serve(["fine"])
    monkeypatch.setenv("OPENAI_BASE_URL", server.url + ending)
    answered(short())
    assert server.asked[0].url == f"{server.url}/chat/completions{ending.lstrip('/')}"


DOCUMENTS = {
    "plain": "Ada lives in Ulm.",
    "escapes": 'He said: "\\n" \t \x00 \x1f \x7f </document> \\',
    "other scripts": "Маяк стоял на скале. 灯台。 é \u2028 \U0001f600",
    "ends within an escape": "a\\",
    "large": "Ada lives in Ulm, and Bo in Kiel.\n" * 50_000,
}


@pytest.mark.parametrize("caching", ["off", "anthropic", "openai"])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_comes_as_it_is_each_time(serve: Serve, name: str, caching: str):
    server = serve(["fine"], PEARL_PROMPT_CACHE=caching, PEARL_MODEL="gpt-5.6")
    document = Source("x", DOCUMENTS[name])
    other = Source("y", DOCUMENTS[name][::-1])
    requests = [step(document), step(document, "x = SUMMARIZE(CTX)"), step(other), step(document)]
    answered(*requests)
    for asked, request in zip(server.asked, requests, strict=True):
        assert asked.text == "\n".join(message["content"] for message in request.messages)


def test_what_is_kept_of_documents_is_bounded_and_never_mistaken():
    writer, form = RequestWriter("m", Settings()), RequestFormat()
    requests = [step(Source("x", f"{number} " * 50_000)) for number in range(70)]
    # The same hash and length for another text must not bring the first one's words.
    false = Request(*(getattr(requests[1], name) for name in ("call", "messages", "path", "key")),
                    requests[0].stable, requests[0].document)  # fmt: skip
    large = step(Source("x", "words " * 4_000_000))
    tracemalloc.start()
    for request in (false, large, *requests):
        writer.body(request, form)
    for request in (requests[0], requests[-1], requests[1], false):
        assert json.loads(writer.body(request, form))["messages"] == list(request.messages)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # 64 of them would be 19 MB.
    assert 14 << 20 < kept < 17 << 20


@pytest.mark.parametrize("way", WAYS)
def test_half_a_character_is_not_sent(serve: Serve, way: str):
    server = serve(["fine"])
    for request in (short("a\ud800", "b"), short("a", "b\ud800"), step(Source("x", "a\ud800"))):
        error = failed(request, model=WAYS[way]())
        assert (error.reason, "half a character" in str(error)) == ("request", True)
    assert not server.asked


# --- prompt caching ---

BREAKPOINT = {"prompt_cache_breakpoint": {"mode": "explicit"}}
OWN = "https://api.openai.com/v1"


def own(caching: Literal["off", "key", "breakpoint"], greedy: bool = False) -> RequestFormat:
    """The form in which OpenAI's own endpoint is asked."""
    return RequestFormat(caching, "max_completion_tokens", greedy=greedy)


@pytest.mark.parametrize(
    ("name", "url", "caching", "form"),
    [
        ("gpt-4o", OWN, "auto", own("key", greedy=True)),
        ("gpt-5", OWN, "auto", own("key")),
        ("gpt-5.5-pro", OWN, "auto", own("key")),
        ("gpt-5.6", OWN, "auto", own("breakpoint")),
        ("gpt-5.10-mini", OWN, "auto", own("breakpoint")),
        ("gpt-6-mini-2027-01-01", OWN, "auto", own("breakpoint")),
        ("ft:gpt-5.6-mini:me::1", OWN, "auto", own("breakpoint")),
        ("o3", OWN, "auto", own("key")),
        ("gpt-6", "https://eu.api.openai.com/v1", "off", own("off")),
        ("gpt-6", "https://api.openai.com.example.org/v1", "auto", RequestFormat()),
        ("gpt-6", "http://localhost:8000/v1", "auto", RequestFormat()),
        ("openai/gpt-5.6", "https://openrouter.ai/api/v1", "openai", RequestFormat("breakpoint")),
        ("gpt-35-turbo", "https://me.openai.azure.com/openai/v1", "openai", RequestFormat("key")),
        ("claude", "https://openrouter.ai/api/v1", "anthropic", RequestFormat("anthropic")),
    ],
)
def test_an_endpoint_is_asked_in_its_own_words(
    name: str, url: str, caching: str, form: RequestFormat
):
    settings = Settings(OPENAI_BASE_URL=url, prompt_cache=caching)  # type: ignore[arg-type]
    assert RequestWriter(name, settings).first_form == form


def test_a_proxy_that_is_no_address_is_named(serve: Serve, monkeypatch: pytest.MonkeyPatch):
    serve(["fine"], PEARL_MODEL="m", no_proxy="")
    monkeypatch.setenv("http_proxy", "nonsense")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://api.openai.com/v1")
    with pytest.raises(ModelError, match="OPENAI_BASE_URL, and http_proxy or https_proxy, where"):
        answered(short())


def test_openai_itself_is_given_a_key_and_a_breakpoint(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
):
    # A proxy stands in for the endpoint, whose host is what decides.
    server = serve(["fine"], PEARL_MODEL="gpt-5.6-mini", PEARL_MAX_TOKENS="700", no_proxy="")
    monkeypatch.setenv("http_proxy", server.url.removesuffix("/v1"))
    monkeypatch.setenv("OPENAI_BASE_URL", "http://api.openai.com/v1")
    request = step()
    answered(request, step(written="x = SUMMARIZE(CTX)"), short())
    assert server.asked[0].url == "http://api.openai.com/v1/chat/completions"
    first, second, third = (asked.body for asked in server.asked)
    assert 8 < len(first["prompt_cache_key"]) <= 64
    assert second["prompt_cache_key"] == first["prompt_cache_key"]
    assert first["prompt_cache_options"] == {"mode": "explicit"}
    start, rest = first["messages"][1]["content"]
    text = request.messages[1]["content"]
    assert start == {"type": "text", "text": text[: request.stable], **BREAKPOINT}
    assert rest == {"type": "text", "text": text[request.stable :]}
    assert third == {
        "model": "gpt-5.6-mini",
        "max_completion_tokens": 700,
        "messages": list(short().messages),
    }


def test_anthropics_words_mark_the_document(serve: Serve):
    server = serve(["fine"], PEARL_PROMPT_CACHE="Anthropic ")
    answered(step(), short())
    with_document, without = (asked.body for asked in server.asked)
    assert set(with_document) == {"model", "temperature", "messages"}
    start, rest = with_document["messages"][1]["content"]
    assert start["text"].endswith("</document>")
    assert start["cache_control"] == {"type": "ephemeral"}
    assert set(rest) == {"type", "text"}
    assert without["messages"] == list(short().messages)


REFUSALS = {
    "openai": lambda field: failing(400, f"Unknown parameter: '{field}'."),
    "a validator": lambda field: answering(
        422,
        json.dumps({"detail": [{"loc": ["body", field], "msg": "Extra inputs: forbidden"}]}),
        "application/json",
    ),
    "a parameter": lambda field: answering(
        400,
        json.dumps({"error": {"message": "No.", "param": field, "code": "unknown_parameter"}}),
        "application/json",
    ),
}


@pytest.mark.parametrize("kind", REFUSALS)
@pytest.mark.parametrize(
    ("caching", "field"),
    [
        ("openai", "prompt_cache_key"),
        ("openai", "messages[1].content[0].prompt_cache_breakpoint"),
        ("anthropic", "messages.1.content.0.cache_control"),
    ],
)
def test_what_an_endpoint_does_not_take_is_given_up_for_good(
    serve: Serve, kind: str, caching: str, field: str
):
    no = REFUSALS[kind](field)
    server = serve([no, "fine"], PEARL_PROMPT_CACHE=caching, PEARL_MODEL="gpt-5.6")
    replies = answered(step(), step())
    assert [reply.text for reply in replies] == ["fine", "fine"]
    plain = {"model": "gpt-5.6", "temperature": 0, "messages": list(step().messages)}
    assert [asked.body == plain for asked in server.asked] == [False, True, True]


REASONING = "Unsupported value: 'temperature' does not support 0 with this model. Only the default."


def test_a_temperature_that_nobody_set_is_given_up_for_good(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
):
    server = serve([failing(400, REASONING), "fine"])
    another = short()._replace(sample=1)
    replies = answered(short(), another)
    assert [reply.text for reply in replies] == ["fine", "fine"]
    assert [asked.body.get("temperature") for asked in server.asked] == [0, None, None]
    # What a person asks for is not given up behind their back.
    monkeypatch.setenv("PEARL_TEMPERATURE", "0.2")
    server = serve([failing(400, REASONING)])
    assert "temperature" in str(failed())
    assert [asked.body["temperature"] for asked in server.asked] == [0.2]


@pytest.mark.parametrize(
    ("environment", "sent"),
    [
        ({}, [(0, None), (0.7, None), (0.7, None)]),
        ({"PEARL_TEMPERATURE": "0"}, [(0, None), (0.7, None), (0.7, None)]),
        ({"PEARL_SEED": "0"}, [(0, 0), (0.7, 1), (0.7, 2)]),
        ({"PEARL_TEMPERATURE": "1.5", "PEARL_SEED": "9"}, [(1.5, 9), (1.5, 10), (1.5, 11)]),
    ],
)
def test_another_answer_to_the_same_prompt_is_drawn_and_not_repeated(
    serve: Serve, environment: dict[str, str], sent: list[tuple[float, int | None]]
):
    server = serve(["fine"], **environment)
    answered(*(short()._replace(sample=sample) for sample in range(3)))
    assert [(one.body["temperature"], one.body.get("seed")) for one in server.asked] == sent


def test_what_nobody_set_is_no_part_of_a_models_identity():
    assert OpenAI(Endpoint("m", Settings())).identity == '["m","",{}]'
    named = Settings(temperature=0.5, seed=7, max_tokens=50)
    sampling = '{"seed":7,"temperature":0.5}'
    assert OpenAI(Endpoint("m", named)).identity == f'["m","",{sampling}]'
    assert named.sampling == "temperature 0.5, seed 7, replies of 50 tokens"
    assert Settings().sampling == (
        "temperature 0 where the endpoint takes it, no seed, replies within the usual limits"
    )


def test_the_token_limit_goes_by_the_name_the_endpoint_knows(serve: Serve):
    told = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens'."
    server = serve([failing(400, told), "fine"], PEARL_MAX_TOKENS="700")
    answered(short(), short())
    names = [{"max_tokens", "max_completion_tokens"} & set(asked.body) for asked in server.asked]
    assert names == [{"max_tokens"}, {"max_completion_tokens"}, {"max_completion_tokens"}]


@pytest.mark.parametrize(
    ("told", "settings", "requests"),
    [
        ("max_tokens is too large: 700. The model has at most 500.", {"PEARL_MAX_TOKENS": "7"}, 1),
        ("Unsupported parameter: 'max_tokens'.", {}, 1),
        # It knows neither name: each is tried once.
        ("Unsupported: max_tokens, max_completion_tokens", {"PEARL_MAX_TOKENS": "7"}, 2),
        ("Unsupported: max_tokens, cache_control", {"PEARL_PROMPT_CACHE": "anthropic"}, 2),
        ("Unknown parameter: 'cache_control'.", {"PEARL_PROMPT_CACHE": "off"}, 1),
    ],
)
def test_a_refusal_is_not_met_for_ever(
    serve: Serve, told: str, settings: dict[str, str], requests: int
):
    server = serve([failing(400, told)], **settings)
    assert failed(step()).reason == "request"
    assert len(server.asked) == requests


TOO_MANY = [
    "{0} is too large: 4096. This model supports at most 2048 completion tokens, whereas you "
    "provided 4096.",
    "Invalid '{0}': integer above maximum value. Expected a value <= 2048, but got 4096 instead.",
    "{0}: 4096 > 2048, which is the maximum allowed number of output tokens for claude-3-20240307",
    "`{0}` must be less than or equal to `2048`, the maximum value for `{0}` is less than the "
    "`context_window` for this model",
    "{0} must be at most 2,048, got 4096",
    "Invalid {0} value, the valid range of {0} is [1, 2048]",
]


@pytest.mark.parametrize(
    ("told", "way"), [*((told, "chat") for told in TOO_MANY), *((TOO_MANY[0], way) for way in WAYS)]
)
def test_as_many_tokens_of_a_reply_are_asked_for_as_an_endpoint_allows(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, told: str, way: str
):
    field = "max_output_tokens" if "responses" in way else "max_tokens"
    server = serve([failing(400, told.format(field)), "fine"])
    long, brief = short()._replace(limit=4096), short()._replace(limit=1024)
    replies = answered(long, long, brief, short(), model=WAYS[way]())
    assert [reply.text for reply in replies] == ["fine"] * 4
    assert [asked.body.get(field) for asked in server.asked] == [4096, 2048, 2048, 1024, None]
    # What a person asks for is not given up behind their back.
    server = serve([failing(400, told.format(field))], PEARL_MAX_TOKENS="4096")
    error = failed(long, WAYS[way]())
    assert str(error).endswith(" Set PEARL_MAX_TOKENS to what it allows.")
    assert len(server.asked) == 1
    # Nor is the same asked for ever where what it names is refused, too.
    monkeypatch.delenv("PEARL_MAX_TOKENS")
    assert failed(long, WAYS[way]()).reason == "request"
    assert [asked.body[field] for asked in server.asked[1:]] == [4096, 2048]


@pytest.mark.parametrize("way", WAYS)
def test_an_endpoint_that_allows_ever_fewer_tokens_is_not_asked_for_ever(serve: Serve, way: str):
    field = "max_output_tokens" if "responses" in way else "max_tokens"
    server = serve(lambda body: failing(400, f"{field} must be at most {body[field] - 1}"))
    model = WAYS[way]()
    for _ in range(2):
        assert failed(short()._replace(limit=4096), model).reason == "request"
    assert [asked.body[field] for asked in server.asked] == [4096, 4095, 4095]


@pytest.mark.parametrize(
    ("told", "advice"),
    [
        ("max_tokens is too large", True),
        ("Expected max_tokens >= 4097, but got 4096", True),
        ("Unsupported parameter: 'max_tokens'", False),
        ("At most 2048 documents", False),
        ("max_tokens is too large: 4096. The model's maximum context length is 2048 tokens", False),
    ],
)
def test_what_names_no_number_of_a_reply_s_tokens_is_told(serve: Serve, told: str, advice: bool):
    server = serve([failing(400, told)])
    error = failed(short()._replace(limit=4096))
    assert (" Set PEARL_MAX_TOKENS to what it allows." in str(error)) == advice
    assert 2048 not in [asked.body.get("max_tokens") for asked in server.asked]


@pytest.mark.parametrize("words", ["max", "prompt is too long 1,111,111", "max_tokens > 1,111,111"])
def test_an_error_s_long_words_are_searched_at_once(words: str):
    # In square time, each would take minutes.
    words += words[-4:] * 100_000
    error = failure(400, {}, complaint_of({"error": {"message": words, "code": words}}, str))
    assert len(str(error)) < 300
    assert len(error.complaint) < 10_000
    assert RequestFormat().without(error.complaint).most < 10**12


# --- what goes wrong ---


async def babbling(request: web.Request) -> web.StreamResponse:
    """What is no HTTP."""
    assert request.transport is not None
    request.transport.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
    request.transport.close()
    return web.Response()


FAILURES: dict[str, tuple[Any, str, str]] = {
    "no HTTP": (babbling, "reply", "HTTP as it should"),
    "an endless stream": (
        stalling(begun=b'data: {"choices": []}\n\n', Content_Type="text/event-stream"), "reply",
        "streams its answer",
    ),
    "a long error": (answering(500, "too bad " * 1_000_000, "text/plain"), "server", "too bad"),
    "401": (failing(401, f"Incorrect key: {KEY}"), "authentication", "OPENAI_API_KEY"),
    "403": (failing(403), "authentication", "OPENAI_API_KEY"),
    "402": (failing(402, "Insufficient credits"), "quota", "quota is used up"),
    "400": (failing(400, "bad"), "request", "refused the request: bad\\."),
    "400 with the key": (failing(400, f"bad {KEY}"), "request", r"bad \*\*\*"),
    "400 with the key late": (failing(400, "x" * 190 + KEY), "request", "xxx"),
    "400 in lines": (failing(400, "a\nb\r\n\tc"), "request", "a b c\\."),
    "400 of words": (answering(400, "Just no!", "text/plain"), "request", "Just no!$"),
    "400 of nothing": (answering(400), "request", "says 400 and no more"),
    "400, error a text": (answering(400, '{"error": "no model"}'), "request", "no model\\."),
    "400, flat": (answering(400, '{"message": "too hot", "code": 400}'), "request", "too hot"),
    "400, error null": (answering(400, '{"error": null}'), "request", "says 400 and no more"),
    "404": (failing(404, "no model x"), "request", r"no model x\. Check --model"),
    "408": (failing(408), "timeout", "in time"),
    "409": (failing(409, "locked"), "server", "locked"),
    "422": (failing(422, "no such role"), "request", "no such role"),
    "429": (failing(429, "slow down"), "rate", r"slow down\. Try again later"),
    "quota": (failing(429, "You…", code="insufficient_quota"), "quota", "quota is used up"),
    "no account": (failing(429, code="billing_not_active"), "quota", "quota is used up"),
    "a call too large": (
        failing(429, "Request too large for gpt-4o: Limit 30000, Requested 42069"),
        "request",
        "Requested 42069",
    ),
    "a long prompt": (
        failing(400, "This model's maximum context length is 4096 tokens."),
        "context",
        "does not fit the model: This model's maximum context length is 4096 tokens\\.",
    ),
    "a long prompt, by code": (
        failing(400, "Too much.", code="context_length_exceeded"), "context", "Too much\\.",
    ),
    "a long prompt, Anthropic": (
        failing(400, "prompt is too long: 250 tokens > 200 maximum"), "context", "250 tokens > 200",
    ),
    "413": (answering(413, "<html>nginx</html>"), "context", "says 413 and no more"),
    "500": (failing(500, "<html>oh</html>"), "server", "it says 500 and no more\\."),
    "503": (failing(503, "busy"), "server", "failed \\(503\\): busy\\."),
    "a redirect": (
        answering(301, Location="https://login.example.org/v1?key=1"), "request",
        r"elsewhere to login\.example\.org: check OPENAI_BASE_URL\.",
    ),
    "a redirect with the key": (
        answering(307, Location=f"http://{KEY}:x@{'x' * 190}{KEY}.example/{KEY}"), "request",
        r"elsewhere to x{190}\*\*\*\.exampl: check OPENAI_BASE_URL\.",
    ),
    "a redirect to no address": (
        answering(302, Location="http://evil[31m.example/"), "request",
        r"The endpoint sends calls elsewhere: check OPENAI_BASE_URL\.",
    ),
    "reset": (resetting, "connection", "broke the connection off"),
    "broken off": (breaking_off, "connection", "in the middle"),
    "a page": (sending("<html>hi</html>", "text/html"), "reply", "a page.*OPENAI_BASE_URL"),
    "truncated JSON": (sending('{"choices": [{"mess'), "reply", "damaged"),
    "no bytes": (sending(""), "reply", "something else"),
    "not UTF-8": (sending(b'{"a": "\xff"}'), "reply", "damaged"),
    "a deep answer": (sending("[" * 100_000), "reply", "damaged"),
    "a long number": (sending("1" * 10_000), "reply", "something else"),
    "a stream": (sending('data: {"choices": []}\n\n'), "reply", "streams its answer"),
    "an event": (sending('\nevent: x\ndata: {"choices": []}\n\n'), "reply", "streams its answer"),
    "a list": (sending("[]"), "reply", "instead of a completion"),
    "no choices": (sending('{"choices": []}'), "reply", "instead of a completion"),
    "choices of another kind": (sending('{"choices": ["x"]}'), "reply", "instead of"),
    "message a list": (sending('{"choices": [{"message": []}]}'), "empty", "empty answer"),
    "an error with 200": (sending('{"error": {"message": "oops"}}'), "server", "oops"),
    "a limit with 200": (sending('{"error": {"message": "slow", "code": 429}}'), "rate", "slow"),
    "no quota with 200": (
        sending('{"error": {"message": "no", "code": "insufficient_quota"}}'), "quota", "quota",
    ),
    "an error in the choice": (
        sending('{"choices": [{"error": {"message": "gone", "code": 502}}]}'), "server", "gone",
    ),
    "empty": (completion(""), "empty", "empty answer"),
    "a tool": (completion(None, tool_calls=[{}]), "empty", "called a tool|empty"),
    "thought, cut": (completion("<think>So", finish="length"), "length", "PEARL_MAX_TOKENS"),
    "thought alone": (completion("<think>So</think>\n"), "empty", "empty answer"),
    "all thought": (completion("", finish="length"), "length", "PEARL_MAX_TOKENS"),
    "filtered": (completion(None, finish="content_filter"), "refusal", "filter"),
    "half filtered": (completion("It is", finish="content_filter"), "refusal", "filter"),
    "refusal": (completion(None, refusal="I will\nnot."), "refusal", "refused: I will not\\."),
    "refusal with the key": (completion("", refusal=f"No {KEY}"), "refusal", r"No \*\*\*"),
    "content a list": (completion([{"text": "x"}]), "reply", "as a list"),
    "content a number": (completion(3), "reply", "not as text"),
    "5 MB": (completion("x" * 5_000_000), "reply", "has 5,000,000 characters.* the 1,000,000 that"),
    "17 MB": (flooding(17), "request", "longer than 16 MB"),
    "40 MB, declared": (flooding(40, declared=True), "request", "longer than 16 MB"),
}  # fmt: skip


CASES = [
    (case, way)
    for case, (answer, _, _) in FAILURES.items()
    # What is sent in place of an answer comes over two transports; answers come in two shapes.
    for way in (WAYS if isinstance(answer, dict) else TRANSPORTS)
]


@pytest.mark.parametrize("key", ["sk-Ab12cd", "keyof23Harbour", "a-lower+case/key-of-1"])
@pytest.mark.parametrize("way", TRANSPORTS)
def test_a_key_is_taken_out_in_whatever_form_an_endpoint_repeats_it(
    serve: Serve, key: str, way: str
):
    basic = b64encode(f"user:{key}".encode()).decode()
    forms = [key, key.lower(), key.upper(), quote(key, safe="")]
    forms += [basic] if len(key) > 9 else []
    serve([failing(400, f"bad {form}") for form in forms], OPENAI_API_KEY=key)
    for form in forms:
        with pytest.raises(ModelError) as caught:
            answered(short(), model=WAYS[way]())
        assert "***" in str(caught.value), form
        assert form not in str(caught.value)


@pytest.mark.parametrize(("case", "way"), CASES)
def test_a_failing_endpoint_is_told_in_one_line(
    serve: Serve, case: str, way: str, caplog: pytest.LogCaptureFixture
):
    answer, reason, words = FAILURES[case]
    server = serve([answer])
    with pytest.raises(ModelError, match=_here(words, way)) as caught:
        answered(short(), model=WAYS[way]())
    error = caught.value
    assert (error.reason, error.retry_after, error.attempts) == (reason, None, ())
    assert len(str(error).splitlines()) == 1
    assert len(str(error)) < 300
    assert len(server.asked) == 1
    told = (str(error), repr(error), caplog.text)
    assert not [text for text in told if KEY[:12].casefold() in text.casefold()]


def _here(words: str, way: str) -> str:
    """What a message says where a client was handed over in place of the environment's names."""
    if "SDK" in way:
        for name, here in HANDED_OVER.items():
            words = words.replace(name, here)
    return words


UNUSABLE = [
    completion("", usage=PAID),
    completion(None, usage=PAID, refusal="no"),
    completion("", usage=PAID, finish="length"),
    completion("half", usage=PAID, finish="content_filter"),
    completion([], usage=PAID),
    completion("x" * 1_000_001, usage=PAID),
    {"choices": [], "usage": PAID},
    {"error": {"message": "x"}, "usage": PAID},
]


@pytest.mark.parametrize("way", WAYS)
def test_what_an_unusable_answer_cost_is_told(serve: Serve, way: str):
    serve(UNUSABLE)
    assert [failed(model=WAYS[way]()).usage for _ in UNUSABLE] == [Usage(70, 5)] * len(UNUSABLE)


@pytest.mark.parametrize("way", WAYS)
def test_a_long_answer_is_returned_whole(serve: Serve, way: str):
    text = "é" * 1_000_000
    serve([completion(text)])
    assert answered(short(), model=WAYS[way]())[0].text == text


@pytest.mark.parametrize("thought", ["<think>\n> A quote?\n</think>\n\n", "Well, so</think> "])
def test_what_a_model_thinks_is_no_part_of_its_answer(serve: Serve, thought: str):
    serve([completion(f"{thought}It is so, <think>he said</think>.")])
    assert answered(short(), model=WAYS["chat"]())[0].text == "It is so, <think>he said</think>."


@pytest.mark.parametrize("way", WAYS)
def test_an_answer_that_was_cut_says_so(serve: Serve, way: str):
    serve([completion("half a", finish="length", usage=PAID), completion("whole", finish="stop")])
    cut, whole = answered(short(), short(), model=WAYS[way]())
    assert cut == Reply("half a", Usage(70, 5), complete=False)
    assert whole == Reply("whole")


@pytest.mark.parametrize("way", WAYS)
def test_usage_is_what_the_endpoint_says(serve: Serve, way: str):
    told: list[tuple[Any, Usage]] = [
        (PAID | {"prompt_tokens_details": {"cached_tokens": 64}}, Usage(70, 5, 64)),
        (PAID | {"prompt_tokens_details": None}, Usage(70, 5)),
        # More from a cache than was read is no count.
        (PAID | {"prompt_tokens_details": {"cached_tokens": 71}}, Usage(70, 5)),
        ({"prompt_tokens": 10**30, "completion_tokens": 2.5}, Usage()),
    ]
    if "responses" not in way:
        told.append((PAID | {"prompt_cache_hit_tokens": 32}, Usage(70, 5, 32)))
    serve([completion("x", usage=usage) for usage, _ in told])
    replies = answered(*(short() for _ in told), model=WAYS[way]())
    assert [reply.usage for reply in replies] == [expected for _, expected in told]


IN_A_MINUTE = formatdate(1_900_000_060, usegmt=True)
NOW = formatdate(1_900_000_000, usegmt=True)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7),
        ({"Retry-After": " 1.5 "}, 1.5),
        ({"Retry-After": "600"}, 600),
        ({"retry-after-ms": "250", "Retry-After": "7"}, 0.25),
        ({"retry-after-ms": "soon", "Retry-After": "7"}, 7),
        ({"Retry-After": IN_A_MINUTE, "Date": NOW}, 60),
        ({"Retry-After": NOW, "Date": IN_A_MINUTE}, None),
        ({"Retry-After": "0"}, None),
        ({"Retry-After": "-3"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "in a while"}, None),
        ({"Retry-After": "Fri, 99 Foo 9999 99:99:99 GMT"}, None),
    ],
)
def test_how_long_to_wait_is_read(headers: dict[str, str], seconds: float | None):
    for status in (429, 503):
        assert failure(status, headers, Complaint()).retry_after == seconds
    # Our clock counts where the endpoint tells no other.
    late = {"Retry-After": "Wed, 01 Jan 2998 00:00:00 GMT", "Date": "?"}
    assert (failure(429, late, Complaint()).retry_after or 0) > 1e9


@pytest.mark.parametrize("way", TRANSPORTS)
@pytest.mark.parametrize("handler", [dripping, stalling(), stalling(200, b'{"choices": [')])
def test_the_deadline_is_the_whole_calls(serve: Serve, way: str, handler: Any):
    server = serve([handler], PEARL_TIMEOUT="0.3")
    error = failed(model=WAYS[way]())
    assert (error.reason, str(error)) == ("timeout", "No answer within 0.3 seconds.")
    # A busy machine may not have heard the one call by then.
    assert len(server.asked) <= 1


def test_an_error_whose_words_stall_is_told_by_its_status(serve: Serve):
    serve([stalling(429, b'{"error": {', Retry_After="9")], PEARL_TIMEOUT="2")
    error = failed()
    assert (error.reason, error.retry_after) == ("rate", 9)


@pytest.mark.parametrize("way", TRANSPORTS)
@pytest.mark.parametrize(
    ("url", "reason"),
    [
        # Where nobody listens.
        ("http://127.0.0.1:9/v1", "connection"),
        ("http://nowhere.invalid/v1", "connection"),
        ("http://a..b/v1", "request"),
        (f"http://{'a' * 70}.invalid/v1", "request"),
    ],
)
def test_an_address_without_a_machine(serve: Serve, way: str, url: str, reason: str):
    serve([], OPENAI_BASE_URL=url)
    error = failed(model=WAYS[way]())
    # The SDK asks the resolver, and not whether there can be such a name.
    reason = "connection" if "SDK" in way else reason
    assert (error.reason, _here("OPENAI_BASE_URL", way) in str(error)) == (reason, True)


@pytest.mark.parametrize("way", TRANSPORTS)
def test_a_certificate_is_verified(serve: Serve, way: str, tmp_path: Path):
    with Server(["fine"], tls=certified(tmp_path)) as server:
        serve([], OPENAI_BASE_URL=server.url)
        error = failed(model=WAYS[way]())
    assert (error.reason, "certificate cannot be verified" in str(error)) == ("request", True)
    assert not server.asked


# --- one model over time ---


@pytest.mark.parametrize("way", TRANSPORTS)
@pytest.mark.parametrize("final", [failing(401), failing(429, code="insufficient_quota")])
def test_nothing_is_sent_after_a_final_error_until_it_is_closed(serve: Serve, way: str, final: Any):
    server = serve([final, "fine"])
    model = WAYS[way]()

    async def twice() -> None:
        for _ in range(2):
            with pytest.raises(
                ModelError, match="check OPENAI_API_KEY|check how the client signs in|quota"
            ):
                await model.answer(short())
        assert len(server.asked) == 1
        await model.close()

    asyncio.run(twice())
    assert answered(short(), model=model)[0].text == "fine"


@pytest.mark.parametrize("way", TRANSPORTS)
def test_a_model_serves_one_event_loop_after_another(serve: Serve, way: str):
    serve(["fine"])
    model = WAYS[way]()

    async def several() -> list[str]:
        replies = await asyncio.gather(*(model.answer(short()) for _ in range(5)))
        return [reply.text for reply in replies]

    # Nobody closes it: each loop leaves its connections behind.
    for _ in range(3):
        assert asyncio.run(several()) == ["fine"] * 5
    assert answered(short(), model=model)[0].text == "fine"
    assert answered(short(), model=model)[0].text == "fine"


def test_a_model_serves_two_event_loops_at_a_time(serve: Serve):
    def script(body: dict[str, Any]) -> Any:
        return held if "first" in body["messages"][1]["content"] else "second"

    async def held(_: web.Request) -> web.StreamResponse:
        await asyncio.to_thread(over.wait, 10)
        return web.json_response(completion("first"))

    over, told = threading.Event(), []
    serve(script)
    model = pearl.choose_model()
    first = threading.Thread(
        target=lambda: told.append(answered(short("s", "first"), model=model)[0].text)
    )
    first.start()
    # Closing it in this loop does no harm to the call under way in the other.
    told.append(answered(short("s", "other"), model=model)[0].text)
    over.set()
    first.join(10)
    assert told == ["second", "first"]


@pytest.mark.parametrize("way", TRANSPORTS)
def test_a_cancelled_call_leaves_the_model_whole(serve: Serve, way: str):
    async def held(_: web.Request) -> web.StreamResponse:
        came.set()
        await asyncio.Event().wait()
        return web.Response()

    came = threading.Event()
    serve([held, "fine"])
    model = WAYS[way]()

    async def cancelled() -> Reply:
        call = asyncio.ensure_future(model.answer(short()))
        await asyncio.to_thread(came.wait, 10)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        reply = await model.answer(short())
        await model.close()
        return reply

    assert asyncio.run(cancelled()).text == "fine"


# --- was it read ---

LONG = Source("long.txt", "The keeper went up to the lamp and counted 117 steps.\n" * 400)


@pytest.mark.parametrize(
    ("read", "cut"), [(6000, False), (4400, False), (2048, True), (3000, True), (0, False)]
)
def test_a_document_that_was_cut_is_told(serve: Serve, read: int, cut: bool):
    # It has 5,200 tokens.
    usage = {"prompt_tokens": read, "completion_tokens": 5}
    server = serve([completion("x", usage=usage)])
    if cut:
        error = failed(step(LONG))
        assert (error.reason, error.usage) == ("cut", Usage(read, 5))
        assert f"read {read:,} of about 5,2" in str(error)
    else:
        answered(step(LONG), step(LONG))
    assert len(server.asked) == (1 if cut else 2)


def test_dense_text_is_counted_and_not_guessed(serve: Serve):
    # One token for eight bytes in one script, and one for two marks in another text.
    serve([completion("x", usage={"prompt_tokens": 6000, "completion_tokens": 5})])
    answered(step(Source("x", "Смотритель поднялся к лампе и считал ступени. " * 500)))
    assert failed(step(Source("x", "}{ %$ ;; )) @! " * 2400))).reason == "cut"
