"""Clients of the official SDK: a person's own, Azure's, and what they bring along."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pearl
from pearl.lang.errors import InputError
from pearl.models.base import ModelError
from pearl.models.batch_api import BatchOptions, open_batches
from pearl.models.openai_client import OpenAIModel
from tests.batch_server import Provider
from tests.server import KEY, Serve, answering, completion, failing
from tests.shell import call
from tests.test_batch_api import ask, said, texts, words
from tests.test_endpoint import answered, short, step

AZURE_KEY = "azurefeedfeedfeedfeed"


def client(url: str, **options: Any) -> Any:
    import openai

    return openai.AsyncOpenAI(**{"api_key": KEY, "base_url": url, **options})


def on_azure(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    settings = {
        "AZURE_OPENAI_ENDPOINT": url.removesuffix("/v1"),
        "AZURE_OPENAI_API_KEY": AZURE_KEY,
        "OPENAI_API_VERSION": "2024-10-21",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def test_the_client_asks_with_its_own_headers_and_tries_once(serve: Serve):
    server = serve([failing(500), failing(429, headers={"Retry-After": "7"}), "fine"])
    mine = client(server.url, default_headers={"X-Team": "readers"}, max_retries=5)
    model = OpenAIModel(client=mine, model="m")
    for reason, wait in (("server", None), ("rate", 7)):
        with pytest.raises(ModelError) as caught:
            answered(short(), model=model)
        assert (caught.value.reason, caught.value.retry_after) == (reason, wait)
    assert answered(short(), model=model)[0].text == "fine"
    assert len(server.asked) == 3
    heads = [{name.lower(): text for name, text in one.headers.items()} for one in server.asked]
    assert {head["x-team"] for head in heads} == {"readers"}
    # It was closed three times, and its owner's client is not.
    assert not mine.is_closed()


def test_the_same_words_are_sent_as_without_the_client(serve: Serve):
    server = serve(["fine"], PEARL_PROMPT_CACHE="anthropic", PEARL_MAX_TOKENS="50")
    answered(step(), short())
    answered(step(), short(), model=OpenAIModel(client(server.url), "some-model"))
    first, second = server.asked[:2], server.asked[2:]
    assert [one.body for one in first] == [one.body for one in second]


def test_identities_are_those_of_the_endpoint_and_hold_no_secret(serve: Serve):
    server = serve(["fine"])
    live = pearl.choose_model("m")
    assert OpenAIModel(client(server.url), "m").identity == live.identity
    assert OpenAIModel(client(server.url), "m", api="responses").identity != live.identity
    url = server.url.replace("http://", "http://me:secretsecret@")
    assert "secret" not in OpenAIModel(client(f"{url}?key=secretsecret"), "m").identity


def test_whatever_the_client_signs_in_with_is_told_to_nobody(serve: Serve):
    token, other, cookie = (f"{name}-" + "ab" * 12 for name in ("tok", "header", "cookie"))
    key = "q/secretsecret=="
    told = f"bad {token} {other} {key} q%2Fsecretsecret%3D%3D {cookie} {cookie}"
    server = serve([failing(400, told), completion(f"You sent {token}.")])

    async def sign_in() -> str:
        return token

    mine = client(
        server.url,
        api_key=sign_in,
        default_query={"key": key, "api-version": "2024-10-21"},
        default_headers={"X-Api-Token": other, "Cookie": f"lang=en; session={cookie}"},
    )
    model = OpenAIModel(mine, "m")
    with pytest.raises(ModelError, match=r"bad( \*\*\*){6}"):
        answered(short(), model=model)
    assert answered(short(), model=model)[0].text == "You sent ***."
    assert server.asked[0].headers["Authorization"] == f"Bearer {token}"
    assert "key=q%2Fsecretsecret" in server.asked[0].url


def test_a_client_that_cannot_sign_in_is_told_in_one_line(serve: Serve):
    server = serve(["fine"])

    async def fails() -> str:
        raise LookupError("no secretsecret here")

    with pytest.raises(ModelError) as caught:
        answered(short(), model=OpenAIModel(client(server.url, api_key=fails), "m"))
    assert str(caught.value) == "The client failed before it sent anything (LookupError)."
    assert not server.asked


def test_a_client_that_cannot_be_used_is_told_at_once(serve: Serve):
    from openai import OpenAI

    server = serve([])
    with pytest.raises(InputError, match="AsyncOpenAI"):
        OpenAIModel(OpenAI(api_key=KEY, base_url=server.url), "m")
    with pytest.raises(InputError, match="use chat or responses"):
        OpenAIModel(client(server.url), "m", api="completions")  # type: ignore[arg-type]


def test_a_run_goes_through_a_handed_over_client(serve: Serve, examples: Path):
    server = serve(["A finding."])
    model = pearl.OpenAIModel(client=client(server.url), model="m")
    plan = '1. a = FIND_EVENT(CTX, "fire") : Find it\n2. b = FIND_EVENT(CTX, "sea") : Find it\n'
    document = next(examples.glob("*.txt"))
    for _ in range(2):
        assert pearl.run_sync(plan, document, model=model).text == "A finding.\n\nA finding."
    assert len(server.asked) == 4


# --- the Responses API ---


def test_what_the_responses_api_is_sent(serve: Serve):
    server = serve(["fine"], PEARL_MAX_TOKENS="700")
    answered(step(), model=pearl.choose_model("responses:gpt-x"))
    assert server.asked[0].url == f"{server.url}/responses"
    assert server.asked[0].body == {
        "model": "gpt-x",
        "temperature": 0,
        "max_output_tokens": 700,
        "store": False,
        "input": list(step().messages),
    }


RESPONSES = {
    "failed": ({"status": "failed", "error": {"code": "server_error", "message": "oh"}}, "oh"),
    "nothing": ({"output": []}, "empty answer"),
    "thoughts only": ({"output": [{"type": "reasoning", "content": [{"text": "x"}]}]}, "empty"),
    "half": (
        {"output": [], "incomplete_details": {"reason": "max_output_tokens"}},
        "PEARL_MAX_TOKENS",
    ),
    "odd": ({"output": [1, {"content": [2, {"type": "output_text", "text": 3}]}]}, "as a list"),
    "no list": ({"output": {"type": "message"}}, "instead of a completion"),
}


@pytest.mark.parametrize("case", RESPONSES)
def test_a_response_is_read_with_no_trust(serve: Serve, case: str):
    data, words_ = RESPONSES[case]
    serve([answering(200, json.dumps(data), "application/json")])
    with pytest.raises(ModelError, match=words_):
        answered(short(), model=pearl.choose_model("responses:m"))


# --- Azure ---


def test_azure_is_asked_as_the_environment_says(serve: Serve, monkeypatch: pytest.MonkeyPatch):
    server = serve(["fine", failing(401, f"no {AZURE_KEY}")])
    on_azure(monkeypatch, server.url)
    model = pearl.choose_model("azure:my-deployment")
    assert model.name == "azure:my-deployment"
    assert answered(short(), model=model)[0].text == "fine"
    asked = server.asked[0]
    assert asked.url.endswith(
        "/openai/deployments/my-deployment/chat/completions?api-version=2024-10-21"
    )
    assert asked.headers["api-key"] == AZURE_KEY
    assert AZURE_KEY not in model.identity
    with pytest.raises(ModelError, match="check AZURE_OPENAI_API_KEY"):
        answered(short(), model=model)


@pytest.mark.parametrize(
    "missing", ["AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "OPENAI_API_VERSION"]
)
def test_what_azure_lacks_is_named(monkeypatch: pytest.MonkeyPatch, missing: str):
    on_azure(monkeypatch, "http://localhost:1/v1")
    monkeypatch.delenv(missing)
    with pytest.raises(InputError, match=missing):
        pearl.choose_model("azure:d")


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("AZURE_OPENAI_ENDPOINT", "http://127.0.0.1:9", "cannot be reached: check {}. (5 tries)"),
        ("AZURE_OPENAI_ENDPOINT", "here", "{} is wrong: it starts with neither http:// nor https:"),
        ("AZURE_OPENAI_ENDPOINT", "https://u:feed@h", "put the key in AZURE_OPENAI_API_KEY."),
        ("AZURE_OPENAI_API_KEY", "schlüsselfeed", "{} is wrong: it holds characters that no key"),
    ],
)
def test_what_is_wrong_with_azure_s_settings_names_them(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, told: str
):
    on_azure(monkeypatch, "http://127.0.0.1:9/v1")
    monkeypatch.setenv(name, value)
    [line] = call("ask", "-", "Why?", "--model", "azure:d", stdin=b"It was late.").told
    assert told.format(name) in line
    assert "feed" not in line


def test_batches_go_through_azure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    with Provider() as provider:
        on_azure(monkeypatch, provider.url)
        model = open_batches("azure:some-model", tmp_path, BatchOptions(0.05, 0.02))
        assert texts(ask(model, words(3))) == said(words(3))
        assert {head["api-key"] for head in provider.heads} == {AZURE_KEY}
        [(purpose, _, data)] = provider.uploads
    assert (purpose, provider.created[0]["endpoint"]) == ("batch", "/chat/completions")
    assert {json.loads(line)["url"] for line in data.splitlines()} == {"/chat/completions"}
