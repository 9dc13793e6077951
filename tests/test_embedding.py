"""Embeddings of an endpoint: a real server, its mistakes, and a key that is nowhere."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import web

from pearl.lang.errors import InputError
from pearl.models.base import ModelError, Usage
from pearl.models.embeddings import Embed, OpenAIEmbedding, TfIdf, choose_embedding, cosine
from pearl.models.transport import LARGEST
from pearl.runtime.calls import Entry, Journal
from pearl.store.store import open_store
from pearl.strategies.rebel_calls import embedding
from tests.server import Handler, answering, flooding, sending, stalling
from tests.services import Services

KEY = "sk-secret-0123456789"
VECTORS = {"a": [1.0, 0.0], "b": [0.6, 0.8], "c": [0.0, 1.0]}


async def embed(request: web.Request) -> web.StreamResponse:
    """As OpenAI answers, in another order than was asked."""
    given = await request.json()
    rows = [{"index": at, "embedding": VECTORS[one]} for at, one in enumerate(given["input"])]
    told = {"data": rows[::-1], "model": given["model"], "usage": {"prompt_tokens": 7}}
    return web.json_response(told)


async def refusing(request: web.Request) -> web.StreamResponse:
    told = {"error": {"message": f"No model for {request.headers['Authorization']}"}}
    return web.json_response(told, status=400)


def small(services: Services, monkeypatch: pytest.MonkeyPatch) -> Embed:
    """The embedding of a service, as the environment names it."""
    monkeypatch.setenv("OPENAI_BASE_URL", f"{services.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("PEARL_EMBEDDING_MODEL", " small ")
    return choose_embedding()


def vectors(
    handler: Handler, monkeypatch: pytest.MonkeyPatch, texts: Sequence[str] = ("a", "b", "c")
) -> tuple[list[list[float]], Services]:
    with Services({"v1": handler}) as services:
        chosen = small(services, monkeypatch)
        assert isinstance(chosen, OpenAIEmbedding)
        for told in (chosen.identity, repr(chosen), str(pickle.dumps(chosen))):
            assert KEY not in told
        return asyncio.run(chosen(texts)), services


def test_an_endpoint_s_vectors_come_in_the_order_that_was_asked(monkeypatch: pytest.MonkeyPatch):
    found, services = vectors(embed, monkeypatch)
    assert found == [VECTORS[one] for one in "abc"]
    assert cosine(found[0], found[1]) == pytest.approx(0.6)
    [came] = services.came
    assert (came.method, came.path) == ("POST", "/v1/embeddings")
    assert came.headers["Authorization"] == f"Bearer {KEY}"


def test_vectors_may_have_more_bytes_than_a_reply(monkeypatch: pytest.MonkeyPatch):
    rows = [{"index": at, "embedding": [0.5]} for at in range(3)]
    body = json.dumps({"data": rows}) + " " * LARGEST
    assert vectors(sending(body), monkeypatch)[0] == [[0.5]] * 3


def test_a_copy_reads_its_own_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("PEARL_EMBEDDING_MODEL", "small")
    data = pickle.dumps(choose_embedding())
    assert pickle.loads(data).identity == choose_embedding().identity
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(InputError, match="needs an endpoint"):
        _ = pickle.loads(data).identity


@pytest.mark.parametrize(
    ("handler", "reason", "words"),
    [
        (refusing, "request", "No model for Bearer ***"),
        (answering(401, "{}"), "authentication", "refuses the key"),
        (answering(302, Location="http://elsewhere.test/"), "request", "elsewhere.test"),
        (answering(500, "<html>"), "server", "failed"),
        (flooding(33), "request", "longer than 32 MB"),
        *(
            (sending(body), "reply", "holds no embeddings")
            for body in (
                "{}",
                "[1]",
                "null",
                "<html>",
                '{"data": []}',
                '{"data": [{"index": 0, "embedding": [1]}]}',
                '{"data": [{"index": 0, "embedding": [NaN]}, {"index": 1, "embedding": [1]},'
                ' {"index": 2, "embedding": [1]}]}',
                '{"data": [{"index": 0, "embedding": [1, 2]}, {"index": 1, "embedding": [1]},'
                ' {"index": 2, "embedding": [1]}]}',
                '{"data": [{"index": 0, "embedding": "x"}, {"index": 1}, {}]}',
            )
        ),
        (stalling(), "timeout", "No embeddings within 0.2 seconds"),
    ],
)
def test_an_endpoint_that_fails_is_told_in_one_line_without_the_key(
    handler: Handler, reason: str, words: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PEARL_TIMEOUT", "0.2" if reason == "timeout" else "5")
    with pytest.raises(ModelError, match=words.replace("*", r"\*")) as caught:
        vectors(handler, monkeypatch)
    assert caught.value.reason == reason
    assert len(str(caught.value).splitlines()) == 1
    assert KEY not in str(caught.value)


def test_a_wrong_setting_is_told_when_it_is_first_used(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PEARL_EMBEDDING_MODEL", "small")
    chosen = choose_embedding()
    told = "^PEARL_EMBEDDING_MODEL: The model small needs an endpoint"
    with pytest.raises(InputError, match=told):
        asyncio.run(chosen(["a"]))
    with pytest.raises(InputError, match=told):
        embedding(chosen, None)


# --- as calls of a run ---

STRIPPED = [[1.0, 0.0], pytest.approx([0.6, 0.8])]


def journaled(
    services: Services, monkeypatch: pytest.MonkeyPatch, store: str, texts: Sequence[str] = "ab"
) -> tuple[list[list[float]], list[Entry]]:
    """The vectors of one run, and what it wrote down."""
    kept, journal = open_store(store), Journal()
    try:
        embed = embedding(small(services, monkeypatch), kept)(journal.under("step/sub_1"))
        return asyncio.run(embed(list(texts))), journal.entries
    finally:
        kept.close()


def crowded(times: int, **headers: str) -> Handler:
    """Says that it is busy a few times, and then answers."""
    busy = iter(range(times))

    async def answer(request: web.Request) -> web.StreamResponse:
        crowd = next(busy, None) is not None
        return await (answering(429, "{}", **headers) if crowd else embed)(request)

    return answer


def test_a_call_is_tried_again_kept_and_in_the_journal(monkeypatch: pytest.MonkeyPatch):
    store = "store.db"
    with Services({"v1": crowded(2, retry_after_ms="1")}) as services:
        found, entries = journaled(services, monkeypatch, store)
        assert found == STRIPPED
        assert [one.status for one in entries] == ["failed", "failed", "done"]
        assert {one.path for one in entries} == {"step/sub_1/embedding"}
        assert entries[0].cause.startswith("rate: ")
        assert (entries[2].value, entries[2].usage) == ("2 vectors of 2 numbers", Usage(7))
        again, entries = journaled(services, monkeypatch, store)
        assert again == found
        assert [(one.status, one.kept) for one in entries] == [("done", True)]
        assert len(services.came) == 3
        journaled(services, monkeypatch, store, "ba")
        assert len(services.came) == 4


def test_a_call_is_not_tried_for_ever(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PEARL_TRIES", "3")
    for headers, tries in (({"retry_after_ms": "1"}, 3), ({"Retry_After": "999"}, 1)):
        with Services({"v1": crowded(9, **headers)}) as services:
            with pytest.raises(ModelError) as caught:
                journaled(services, monkeypatch, "store.db")
            assert caught.value.reason == "rate"
            assert len(services.came) == tries


def test_without_a_name_it_is_term_weights_which_are_no_calls():
    weights = choose_embedding()
    assert isinstance(weights, TfIdf)
    assert embedding(weights, None)(Journal()) is weights


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [([0.0], [1.0], 0.0), ([], [], 0.0), ([1e200], [1e200], 0.0), ([3.0, 4.0], [6.0, 8.0], 1.0)],
)
def test_a_cosine_needs_lengths(one: list[Any], other: list[Any], near: float):
    assert cosine(one, other) == pytest.approx(near)
