"""The provider's Batch API as a model, against a real server that behaves or does not."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import signal
import sys
from collections import Counter
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from aiohttp import web

from pearl.lang.ast import Action, Param, Step
from pearl.lang.errors import InputError
from pearl.lang.source import Source
from pearl.models.base import ModelError, Reply, Request, Usage
from pearl.models.batch_api import Batches, BatchOptions, Gathering, open_batches
from pearl.models.batch_client import LARGEST_LINE, ProviderBatch
from pearl.models.batch_files import BatchRecord
from pearl.models.middleware import retry
from pearl.models.middleware.stack import EngineLimits, start_engine
from pearl.models.openai import Endpoint, OpenAI
from pearl.models.settings import Settings
from pearl.prompts.calls import ExecuteStep, MapAnswer
from tests.batch_server import Answer, Body, Line, Provider, crowded, echo, result, unsent
from tests.conftest import ROOT
from tests.forks import Fork
from tests.server import (
    KEY,
    Handler,
    answering,
    breaking_off,
    completion,
    dripping,
    failing,
    flooding,
    resetting,
    sending,
    stalling,
)
from tests.test_engine import Clock

T = TypeVar("T")
CALL = MapAnswer("q", "a", ("x", "y"))


def key(word: str) -> str:
    return hashlib.sha256(word.encode("utf-8", "surrogatepass")).hexdigest()


def request(word: str) -> Request:
    return Request(CALL, ({"role": "user", "content": word},), "map", key(word))


def words(count: int) -> list[str]:
    return [f"w{number}" for number in range(count)]


def model(provider: Provider, folder: Path, **options: Any) -> Batches:
    settings = options.pop("settings", {})
    chosen = BatchOptions(**{"quiet": 0.02, "interval": 0.01, **options})
    return Batches(endpoint(provider.url, **settings), folder, chosen)


def endpoint(url: str, **settings: Any) -> Endpoint:
    named = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": url, "timeout": 20.0}
    return Endpoint("some-model", Settings(**{**named, **settings}))


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 60))


async def told(model: Any, some: Iterable[str]) -> list[Reply | ModelError]:
    """What comes of each request, asked together."""
    answers = [model.answer(request(word)) for word in some]
    found = await asyncio.gather(*answers, return_exceptions=True)
    for one in found:
        if not isinstance(one, Reply | ModelError):
            raise one
    return found  # type: ignore[return-value]


def rounds(model: Any, *some: Iterable[str]) -> list[list[Reply | ModelError]]:
    """Ask one round after another, and close the model."""

    async def work() -> list[list[Reply | ModelError]]:
        try:
            return [await told(model, each) for each in some]
        finally:
            await model.close()

    return run(work())


def ask(model: Any, some: Iterable[str]) -> list[Reply | ModelError]:
    """Ask, and close the model."""
    return rounds(model, some)[0]


def failure(model: Any, word: str = "w") -> ModelError:
    """Why a request fails."""
    [error] = ask(model, [word])
    assert isinstance(error, ModelError)
    return error


def die(provider: Provider, folder: Path, act: str, times: int = 1) -> None:
    """Ask for nine words, and vanish when an act has been asked for this often."""

    async def work() -> None:
        asked = asyncio.create_task(told(model(provider, folder), words(9)))
        await asyncio.to_thread(provider.wait, act, times)
        asked.cancel()

    run(work())
    gc.collect()


def texts(found: Iterable[Reply | ModelError]) -> list[str]:
    return [one.text if isinstance(one, Reply) else one.reason for one in found]


def said(some: Iterable[str]) -> list[str]:
    return [f"said {word}" for word in some]


def sent_once(provider: Provider) -> bool:
    """Whether no request was ever in two batches: each is paid for."""
    return max(Counter(one for batch in provider.sent for one in batch).values()) == 1


async def silent(_: web.Request) -> web.StreamResponse:
    """No answer, for ever."""
    await asyncio.Event().wait()
    raise AssertionError


# --- what is sent, and when ---


def test_requests_go_as_one_file_and_are_answered_by_their_keys(tmp_path: Path):
    with Provider() as provider:
        found = ask(model(provider, tmp_path), words(5))
    assert texts(found) == said(words(5))
    assert {one.usage for one in found} == {Usage(10, 2)}
    [(purpose, name, data)] = provider.uploads
    assert (purpose, name) == ("batch", "0001.jsonl")
    lines = [json.loads(line) for line in data.splitlines()]
    assert [line["custom_id"] for line in lines] == [key(word) for word in words(5)]
    assert {(line["method"], line["url"]) for line in lines} == {("POST", "/v1/chat/completions")}
    assert lines[0]["body"] == {
        "model": "some-model",
        "temperature": 0,
        "messages": [{"role": "user", "content": "w0"}],
    }
    [created] = provider.created
    assert created["endpoint"] == "/v1/chat/completions"
    assert created["completion_window"] == "24h"
    assert set(created["metadata"]) == {"pearl"}
    assert {head["Authorization"] for head in provider.heads} == {f"Bearer {KEY}"}


def test_it_is_the_same_model_as_one_asked_live(tmp_path: Path):
    model = endpoint("http://localhost:1/v1", temperature=0.3, max_tokens=50)
    batches, live = Batches(model, tmp_path), OpenAI(model)
    assert (batches.name, batches.identity, batches.notice) == (
        live.name, live.identity, live.notice,
    )  # fmt: skip


def test_a_batch_goes_when_nobody_new_has_come_for_a_while():
    gone: list[tuple[float, list[str]]] = []
    with Clock() as loop:

        async def work() -> None:
            started = loop.time()
            gathering = Gathering(
                lambda lines: gone.append((loop.time() - started, [key for key, _ in lines])),
                BatchOptions(quiet=2.0),
            )
            for word in "abc":
                gathering.add(word, b"x")
                await asyncio.sleep(1.5)
            await asyncio.sleep(60)
            gathering.add("d", b"x")
            await asyncio.sleep(60)

        loop.run_until_complete(work())
    assert gone == [(pytest.approx(5), ["a", "b", "c"]), (pytest.approx(66.5), ["d"])]


def test_a_later_request_goes_into_a_later_batch(tmp_path: Path):
    async def work(provider: Provider) -> None:
        one = model(provider, tmp_path)
        first = asyncio.create_task(told(one, words(6)))
        await asyncio.to_thread(provider.wait, "create")
        assert texts(await told(one, ["late"])) == said(["late"])
        await first
        await one.close()

    with Provider() as provider:
        run(work(provider))
        assert [len(batch) for batch in provider.sent] == [6, 1]


@pytest.mark.parametrize(
    ("full", "some", "sizes"),
    [
        ({"most": 3}, words(7), [1, 3, 3]),
        # What is larger than a file may be goes alone.
        ({"most_bytes": 1500}, ["a" * 400, "b" * 400, "c" * 5000, "d" * 400], [1, 1, 2]),
    ],
)
def test_a_full_file_goes_at_once(tmp_path: Path, full, some: list[str], sizes: list[int]):
    with Provider() as provider:
        found = ask(model(provider, tmp_path, **full), some)
        assert texts(found) == said(some)
        # They are sent side by side, and may arrive in any order.
        assert sorted(len(batch) for batch in provider.sent) == sizes
        large = [data for _, _, data in provider.uploads if len(data) > 1500]
        assert len(large) == ("most_bytes" in full)


def test_several_batches_are_under_way_together(tmp_path: Path):
    under_way: dict[int, str] = {}
    most = 0

    def progress(record: BatchRecord, batch: ProviderBatch) -> None:
        nonlocal most
        under_way[record.number] = batch.status
        most = max(most, list(under_way.values()).count("in_progress"))

    with Provider(looks=10) as provider:
        found = ask(model(provider, tmp_path, most=2, progress=progress), words(8))
        assert texts(found) == said(words(8))
    assert most == 4


def test_progress_tells_how_a_batch_stands(tmp_path: Path):
    seen: list[tuple[int, int, int, int, str]] = []

    def progress(record: BatchRecord, batch: ProviderBatch) -> None:
        counts = (record.requests, batch.completed, batch.failed)
        seen.append((record.number, *counts, batch.status))

    with Provider(script=lambda body: (400, {}) if "w1" in str(body) else echo(body)) as provider:
        ask(model(provider, tmp_path, progress=progress), words(3))
    assert seen[:2] == [(1, 3, 0, 0, "submitting"), (1, 3, 0, 0, "in_progress")]
    assert seen[-1] == (1, 3, 2, 1, "completed")


def test_equal_calls_are_one_line_and_paid_for_once(tmp_path: Path):
    with Provider() as provider:
        found = ask(model(provider, tmp_path), ["w", "w", "v", "w"])
        assert texts(found) == said(["w", "w", "v", "w"])
        assert [one.kept for one in found] == [False, True, False, True]
        assert provider.sent == [[key("w"), key("v")]]


def test_what_was_answered_is_not_asked_again(tmp_path: Path):
    with Provider() as provider:
        _, again = rounds(model(provider, tmp_path), ["w"], ["w", "v"])
        assert texts(again) == said(["w", "v"])
        assert [one.kept for one in again] == [True, False]
        assert provider.sent == [[key("w")], [key("v")]]
        _, later = rounds(model(provider, tmp_path), ["w"], ["w", "v"])
        assert [one.kept for one in later] == [True, False]
        assert len(provider.batches) == 2


def test_half_a_character_is_that_requests_own_trouble(tmp_path: Path):
    with Provider() as provider:
        assert texts(ask(model(provider, tmp_path), ["\ud800", "w"])) == ["request", "said w"]
        assert provider.sent == [[key("w")]]


def test_a_document_that_was_cut_is_no_reply(tmp_path: Path):
    document = Source("d.txt", "Mara kept the lighthouse for nine years. " * 400)
    action = Action("TELL", (Param("CTX"),), "text", "Tell what happens")
    step = ExecuteStep(document, action, Step("a", "TELL", ()), ())
    asked = Request(step, ({"role": "user", "content": document.text},), "step/a", "k")

    async def work(batches: Batches) -> None:
        with pytest.raises(ModelError, match="cut the document"):
            await batches.answer(asked)
        await batches.close()

    with Provider() as provider:
        run(work(model(provider, tmp_path)))


# --- what comes back ---


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (429, {"error": {"message": "Slow down", "code": "rate_limit_exceeded"}}, "rate"),
        (429, {"error": {"message": "You exceeded", "code": "insufficient_quota"}}, "quota"),
        (500, {"error": {"message": "Oops"}}, "server"),
        (503, "busy", "server"),
        (400, {"error": {"message": "No", "code": "context_length_exceeded"}}, "context"),
        (400, {"error": {"message": "No such thing"}}, "request"),
        (404, None, "request"),
        (302, {}, "server"),
        (200, {"choices": []}, "reply"),
        (200, completion(""), "empty"),
        (200, completion(None, refusal="I will not"), "refusal"),
        (200, "text", "reply"),
        (200, None, "reply"),
    ],
)
def test_a_bad_response_fails_its_own_request(tmp_path: Path, status: int, body: Any, reason: str):
    def script(asked: Body) -> Answer:
        return (status, body) if "bad" in str(asked) else echo(asked)

    def whole(lines: list[Line]) -> list[Line]:
        return [result(key("bad"), body) if one["custom_id"] == key("bad") else one
                for one in lines if isinstance(one, dict)]  # fmt: skip

    with Provider(script=script, outputs=whole) as provider:
        found = ask(model(provider, tmp_path), ["w", "bad", "v"])
        assert texts(found) == ["said w", reason, "said v"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("batch_expired", "server"),
        ("batch_cancelled", "request"),
        ("rate_limit_exceeded", "rate"),
        ("internal_server_error", "server"),
        ("insufficient_quota", "quota"),
        ("429", "rate"),
        ("whatever", "request"),
    ],
)
def test_a_request_that_was_never_made_says_why(tmp_path: Path, code: str, reason: str):
    with Provider(outputs=lambda _: [], errors=lambda _: [unsent(key("w"), code)]) as provider:
        assert failure(model(provider, tmp_path)).reason == reason


def test_order_strangers_duplicates_and_damage_cost_nobody_else(tmp_path: Path):
    def mixed(lines: list[Line]) -> list[Line]:
        first = lines[0]
        assert isinstance(first, dict)
        return [
            b"\xff\xfe not JSON",
            b"[1, 2]",
            b"{" * 3000,
            json.dumps(result(key("stranger"), completion("who?"))).encode(),
            json.dumps({"custom_id": 7, "response": None}).encode(),
            b"",
            *reversed(lines),
            result(first["custom_id"], completion("a second one")),
            b'{"custom_id": "half of a li',
        ]

    twice = [result(key("w1"), {"error": {"message": "no"}}, 400)]
    with Provider(outputs=mixed, errors=lambda _: list(twice)) as provider:
        assert texts(ask(model(provider, tmp_path), words(20))) == said(words(20))


def test_a_line_without_end_costs_only_itself(tmp_path: Path):
    def long(lines: list[Line]) -> list[Line]:
        return [
            lines[0],
            json.dumps(result(key("w1"), completion("x" * LARGEST_LINE))).encode(),
            lines[2],
        ]

    with Provider(outputs=long) as provider:
        found = ask(model(provider, tmp_path), words(3))
    assert texts(found) == ["said w0", "reply", "said w2"]


@pytest.mark.parametrize(
    ("status", "reason", "words_"),
    [
        ("completed", "reply", "says nothing of this request"),
        ("expired", "server", "time window"),
        ("cancelled", "request", "cancelled"),
    ],
)
def test_what_is_missing_at_the_end_says_why(tmp_path: Path, status: str, reason: str, words_: str):
    ended = {"status": status}
    with Provider(outputs=lambda lines: lines[:2], end=lambda _: dict(ended)) as provider:
        found = ask(model(provider, tmp_path), words(3))
    assert texts(found) == ["said w0", "said w1", reason]
    assert words_ in str(found[2])


def test_a_batch_that_is_refused_shows_the_first_error(tmp_path: Path):
    errors = [
        {"code": "invalid_model", "line": 2, "message": "The model some-model is unknown."},
        {"code": "other", "line": 3, "message": "Another."},
    ]
    ended = {"status": "failed", "errors": {"object": "list", "data": errors}}
    with Provider(end=lambda _: dict(ended)) as provider:
        found = ask(model(provider, tmp_path), words(2))
    assert texts(found) == ["request"] * 2
    assert "batch_1 failed: line 2: The model some-model is unknown." in str(found[0])


def test_what_failed_goes_into_a_new_batch(tmp_path: Path):
    tried: Counter[str] = Counter()

    def script(body: Body) -> Answer:
        text = body["messages"][0]["content"]
        tried[text] += 1
        return (
            (429, {"error": {"message": "no"}}) if tried["w1"] == 1 == tried[text] else echo(body)
        )

    with Provider(script=script) as provider:
        first, second = rounds(model(provider, tmp_path), words(2), words(2))
        assert texts(first) == ["said w0", "rate"]
        assert texts(second) == said(words(2))
        assert provider.sent == [[key("w0"), key("w1")], [key("w1")]]


def test_a_field_that_is_not_taken_is_given_up(tmp_path: Path):
    def script(body: Body) -> Answer:
        if "max_tokens" in body:
            message = "Unsupported parameter: 'max_tokens' is not supported with this model."
            return 400, {"error": {"message": message, "param": "max_tokens"}}
        return echo(body)

    with Provider(script=script) as provider:
        found = ask(model(provider, tmp_path, settings={"max_tokens": 99}), words(3))
        assert texts(found) == said(words(3))
        assert [len(batch) for batch in provider.sent] == [3, 3]
        assert {body.get("max_completion_tokens") for body in provider.bodies[3:]} == {99}


# --- trouble on the way ---


def test_trouble_while_looking_loses_nothing(tmp_path: Path):
    seen: list[str] = []
    trouble = [
        resetting,
        failing(500),
        sending("<html>Sign in</html>", "text/html"),
        sending("[]"),
        sending('{"id": "../x", "status": "completed"}'),
        breaking_off,
        failing(429, headers={"Retry-After": "0.2"}),
        None,
        failing(503),
    ]
    with Provider(looks=3, instead={"look": list(trouble)}) as provider:
        found = ask(
            model(provider, tmp_path, progress=lambda _, batch: seen.append(batch.status)), words(3)
        )
        assert texts(found) == said(words(3))
        assert sent_once(provider)
    # aiohttp itself asks once more where a connection that was kept open is gone.
    assert seen.count("unreachable") >= 7


def test_an_endpoint_that_asks_for_a_pause_gets_it(tmp_path: Path):
    times: dict[str, float] = {}

    def progress(_: BatchRecord, batch: ProviderBatch) -> None:
        times[batch.status] = asyncio.get_running_loop().time()

    busy = failing(429, headers={"retry-after-ms": "300"})
    with Provider(instead={"look": [busy]}) as provider:
        ask(model(provider, tmp_path, progress=progress), ["w"])
    assert times["in_progress"] - times["unreachable"] >= 0.3


def test_trouble_with_a_download_loses_nothing(tmp_path: Path):
    trouble = [resetting, breaking_off, failing(500)]
    with Provider(instead={"download": list(trouble)}) as provider:
        assert texts(ask(model(provider, tmp_path), words(3))) == said(words(3))
        assert sent_once(provider)
    assert not list(tmp_path.glob(".*.part"))


def test_a_flood_is_not_kept(tmp_path: Path):
    with Provider(instead={"download": [flooding(64)]}) as provider:
        assert texts(ask(model(provider, tmp_path), ["w"])) == ["reply"]
    assert (tmp_path / "0001.output.jsonl").stat().st_size == 2 * LARGEST_LINE


@pytest.mark.parametrize("act", ["upload", "create"])
def test_before_it_is_sent_trouble_is_the_callers_and_asking_again_goes_on(
    act: str, tmp_path: Path
):
    with Provider(instead={act: [resetting]}) as provider:
        first, second = rounds(model(provider, tmp_path), words(2), words(2))
        assert texts(first) == ["connection"] * 2
        assert texts(second) == said(words(2))
        assert provider.sent == [[key("w0"), key("w1")]]
        assert len(provider.uploads) == 1


def test_a_batch_that_began_without_our_hearing_of_it_is_found(tmp_path: Path):
    with Provider(after={"create": [resetting]}, page=2) as provider:
        ours = tmp_path / "ours"
        assert texts(ask(model(provider, ours), words(3))) == ["connection"] * 3
        # By now it is on a later page of the list.
        for name in ("one", "two", "three"):
            assert texts(ask(model(provider, tmp_path / name), [name])) == said([name])
        assert texts(ask(model(provider, ours), words(3))) == said(words(3))
        assert provider.acts["list"] == 2
        assert sent_once(provider)


LAGGING = sending('{"object": "list", "data": [], "has_more": false}')
"""A list of batches that lags behind what was made."""


@pytest.mark.parametrize(
    ("instead", "after", "told", "uploads"),
    [
        # Results that are gone are asked for anew, and those alone are paid for twice.
        ({"download": failing(404)}, {}, "reply: The batch batch_1 says nothing", 2),
        ({"list": LAGGING}, {"create": resetting}, "connection: The endpoint broke", 1),
        ({"upload": silent}, {}, "timeout: No answer within", 1),
        ({"create": silent}, {}, "timeout: No answer within", 1),
        # The provider lets go of files after some time.
        ({"create": failing(400, "No such File object")}, {}, "request: The endpoint refused", 2),
        ({"upload": failing(404)}, {}, "request: The endpoint has no Batch API", 1),
        # It is another account's.
        ({"look": failing(404)}, {}, "request: The endpoint knows no batch batch_1", 1),
    ],
)
def test_what_failed_is_asked_again_by_another_process(
    instead: dict[str, Handler], after: dict[str, Handler], told: str, uploads: int, tmp_path: Path
):
    given = {name: [act] for name, act in instead.items()}
    with Provider(instead=given, after={name: [act] for name, act in after.items()}) as provider:
        # Only an endpoint that is silent is to run into the limit, on a slow machine too.
        limit = 0.5 if told.startswith("timeout") else 30
        errors = ask(model(provider, tmp_path, settings={"timeout": limit}), words(2))
        assert all(isinstance(one, ModelError) for one in errors)
        assert {f"{one.reason}: {one}"[: len(told)] for one in errors} == {told}
        assert texts(ask(model(provider, tmp_path), words(2))) == said(words(2))
        assert len(provider.uploads) == uploads
        assert sent_once(provider) is ("download" not in instead)


@pytest.mark.parametrize("trouble", [silent, dripping])
@pytest.mark.parametrize("act", ["look", "download"])
def test_a_batch_is_waited_for_where_an_answer_never_ends(act: str, trouble: Any, tmp_path: Path):
    with Provider(instead={act: [trouble]}) as provider:
        found = ask(model(provider, tmp_path, settings={"timeout": 0.5}), words(2))
        assert texts(found) == said(words(2))
        assert sent_once(provider)


def test_a_large_file_that_is_refused_at_once(tmp_path: Path):
    with Provider(instead={"upload": [failing(401)]}) as provider:
        reason = failure(model(provider, tmp_path), "x" * (16 << 20)).reason
    # Who closes the connection early may not be heard.
    assert reason in ("authentication", "connection")


@pytest.mark.parametrize(
    ("act", "trouble", "reason"),
    [
        ("upload", failing(401), "authentication"),
        ("upload", failing(403), "authentication"),
        ("create", failing(401), "authentication"),
        ("create", failing(429, code="insufficient_quota"), "quota"),
        ("look", failing(401), "authentication"),
        ("look", failing(402), "quota"),
        ("download", failing(401), "authentication"),
    ],
)
def test_a_final_error_ends_everything_and_loses_nothing(
    act: str, trouble: Any, reason: str, tmp_path: Path
):
    async def work(provider: Provider) -> list[Reply | ModelError]:
        one = model(provider, tmp_path)
        found = await told(one, words(3))
        acts = provider.acts.total()
        found += await told(one, ["another"])
        assert provider.acts.total() == acts
        await one.close()
        return found

    with Provider(instead={act: [trouble]}) as provider:
        assert texts(run(work(provider))) == [reason] * 4
        assert texts(ask(model(provider, tmp_path), words(3))) == said(words(3))
        assert sent_once(provider)
        # What was refused did not begin: nothing is to be looked for.
        assert provider.acts["list"] == 0


def test_a_batch_that_has_no_room_waits_for_another_to_end(tmp_path: Path):
    with Provider(looks=3, room=1) as provider:
        found = ask(model(provider, tmp_path, most=2), words(6))
        assert texts(found) == said(words(6))
        assert len(provider.uploads) == 3
        ends = Counter(batch["status"] for batch in provider.batches.values())
        assert ends["completed"] == 3
        assert ends["failed"] >= 2
        # Asked again, it is what ran that counts.
        assert texts(ask(model(provider, tmp_path), words(6))) == said(words(6))
        assert ends.total() == len(provider.batches)


def test_a_batch_that_had_no_room_is_not_taken_for_the_next(tmp_path: Path):
    with Provider(looks=3, room=1, instead={"create": [None, None, resetting]}) as provider:
        first = texts(ask(model(provider, tmp_path, most=2), words(4)))
        assert first.count("connection") == 2
        assert texts(ask(model(provider, tmp_path), words(4))) == said(words(4))
        assert [batch["status"] for batch in provider.batches.values()].count("failed") == 1


def test_room_is_not_waited_for_where_the_other_batch_is_lost(tmp_path: Path):
    with Provider(looks=10**6, room=1, instead={"look": [None, None, failing(404)]}) as provider:
        found = texts(ask(model(provider, tmp_path, most=2), words(4)))
    assert sorted(found) == ["rate", "rate", "request", "request"]


def test_a_batch_that_has_no_room_alone_is_turned_away(tmp_path: Path):
    with Provider(end=crowded) as provider:
        error = failure(model(provider, tmp_path))
    assert (error.reason, "Enqueued token limit reached." in str(error)) == ("rate", True)


# --- kills ---


HALF = stalling(begun=b'{"id": "batch_req_1", "custom_id": "', Content_Length="100000")
"""The beginning of a file, and then nothing for ever."""

MOMENTS: dict[str, tuple[str, dict[str, dict[str, list[Any]]], str]] = {
    "file written": ("upload", {"instead": {"upload": [silent]}}, "written"),
    "after upload": ("upload", {"after": {"upload": [silent]}}, "written"),
    "before submit": ("create", {"instead": {"create": [silent]}}, "submitting"),
    "after submit": ("create", {"after": {"create": [silent]}}, "submitting"),
    "while looking": ("look", {"instead": {"look": [None, silent]}}, "submitted"),
    "half-way down": ("download", {"instead": {"download": [HALF]}}, "submitted"),
}
"""Where it dies: the act that is waited for, what the server does then, and the stage recorded."""

WORKER = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.test_batch_api import KEY, endpoint, told, words
from pearl.models.batch_api import Batches, BatchOptions
model = Batches(endpoint({url!r}), Path({folder!r}), BatchOptions(0.02, 0.01))
asyncio.run(told(model, words({count})))
"""


def stage(folder: Path) -> str:
    return str(json.loads((folder / "0001.json").read_text())["stage"])


def goes_on(provider: Provider, folder: Path, count: int) -> None:
    """Another process is answered, and pays for nothing that was sent."""
    assert texts(ask(model(provider, folder), words(count))) == said(words(count))
    assert len(provider.batches) == 1
    assert sent_once(provider)
    assert not list(folder.glob(".*"))
    # And a third one needs no provider any more.
    acts = provider.acts.total()
    again = ask(model(provider, folder), words(count))
    assert texts(again) == said(words(count))
    assert {one.usage for one in again} == {Usage(10, 2)}
    assert provider.acts.total() == acts


@pytest.mark.parametrize("moment", ["after submit", "half-way down"])
def test_killed(moment: str, tmp_path: Path):
    act, misbehaving, reached = MOMENTS[moment]
    with Provider(**misbehaving) as provider:  # type: ignore[arg-type]
        code = WORKER.format(root=str(ROOT), url=provider.url, folder=str(tmp_path), count=9)
        process = Fork([sys.executable, "-c", code], cwd=ROOT)
        try:
            provider.wait(act)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(30)
        assert stage(tmp_path) == reached
        goes_on(provider, tmp_path, 9)


@pytest.mark.parametrize("moment", MOMENTS)
def test_dropped(moment: str, tmp_path: Path):
    act, misbehaving, reached = MOMENTS[moment]
    with Provider(**misbehaving) as provider:  # type: ignore[arg-type]
        die(provider, tmp_path, act, 2 if moment == "while looking" else 1)
        assert stage(tmp_path) == reached
        goes_on(provider, tmp_path, 9)


def test_killed_before_the_state_was_written(tmp_path: Path):
    with Provider(instead={"upload": [silent]}) as provider:
        die(provider, tmp_path, "upload")
        (tmp_path / "0001.json").unlink()
        (tmp_path / ".0001.json.part").write_text('{"num')
        goes_on(provider, tmp_path, 9)


def test_other_questions_after_a_kill_leave_what_was_not_sent_alone(tmp_path: Path):
    with Provider(instead={"upload": [silent]}) as provider:
        die(provider, tmp_path, "upload")
        assert texts(ask(model(provider, tmp_path), ["other"])) == said(["other"])
        assert provider.sent == [[key("other")]]


def test_closing_leaves_batches_at_the_provider(tmp_path: Path):
    async def work(provider: Provider) -> list[Reply | ModelError]:
        one = model(provider, tmp_path)
        asked = asyncio.create_task(told(one, words(3)))
        await asyncio.to_thread(provider.wait, "look")
        await one.close()
        return await asked

    with Provider(looks=10**6) as provider:
        assert texts(run(work(provider))) == ["stopped"] * 3
        provider.looks = 0
        # One that was asked before, and one that was not.
        assert texts(ask(model(provider, tmp_path), ["w1", "new"])) == said(["w1", "new"])
        assert provider.sent == [[key(word) for word in words(3)], [key("new")]]


def test_a_model_serves_one_event_loop_after_another(tmp_path: Path):
    with Provider() as provider:
        one = model(provider, tmp_path)
        assert texts(run(told(one, ["w"]))) == said("w")
        assert texts(run(told(one, ["w", "v"]))) == said("wv")
        run(one.close())
        assert sent_once(provider)


# --- the folder ---


def test_two_processes_do_not_work_in_one_folder(tmp_path: Path):
    async def work(provider: Provider) -> list[Reply | ModelError]:
        one, two = model(provider, tmp_path), model(provider, tmp_path)
        await told(one, ["w"])
        found = await told(two, ["w"])
        await one.close()
        await two.close()
        return found + await told(two, ["w"])

    with Provider() as provider:
        refused, answered = run(work(provider))
    assert isinstance(refused, ModelError)
    assert refused.reason == "store"
    assert "Another process works in" in str(refused)
    assert texts([answered]) == said("w")


def test_models_share_a_folder_and_leave_each_others_batches_alone(tmp_path: Path):
    with Provider(instead={"look": [failing(401)]}) as provider:
        assert texts(ask(model(provider, tmp_path), ["w"])) == ["authentication"]
        looks = provider.acts["look"]
        cooler = model(provider, tmp_path, settings={"temperature": 0.1})
        assert texts(ask(cooler, ["v"])) == said("v")
        assert provider.batches["batch_1"]["looks"] == 0
        assert provider.acts["look"] > looks
        assert texts(ask(model(provider, tmp_path), ["w"])) == said("w")
        assert sent_once(provider)


@pytest.mark.parametrize("file", ["0001.json", "0001.jsonl"])
@pytest.mark.parametrize("text", ["", "[]", '{"number": 1}', "{" * 9999])
def test_files_that_somebody_changed_are_not_believed(file: str, text: str, tmp_path: Path):
    with Provider(instead={"look": [failing(401)]}) as provider:
        ask(model(provider, tmp_path), ["w"])
        (tmp_path / file).write_text(text)
        error = failure(model(provider, tmp_path))
        assert (error.reason, file in str(error)) == ("store", True)
        # As it says: without the state the requests are sent anew.
        (tmp_path / "0001.json").unlink()
        assert texts(ask(model(provider, tmp_path), ["w"])) == said("w")


def test_results_that_somebody_removed_are_asked_for_anew(tmp_path: Path):
    with Provider() as provider:
        ask(model(provider, tmp_path), ["w"])
        (tmp_path / "0001.output.jsonl").unlink()
        assert texts(ask(model(provider, tmp_path), ["w"])) == said("w")
        assert len(provider.batches) == 2


def test_a_folder_that_cannot_be_made_stops_everything(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with Provider() as provider:
        assert failure(model(provider, tmp_path / "file" / "folder")).reason == "store"


def test_the_key_is_nowhere(tmp_path: Path):
    told_off = answering(400, json.dumps({"error": {"message": f"no {KEY}"}}))

    def script(body: Body) -> Answer:
        bad = {"error": {"message": f"what is {KEY}?"}}
        return (400, bad) if "bad" in str(body) else f"the key is {KEY}"

    with Provider(script=script, instead={"create": [told_off]}) as provider:
        found = ask(model(provider, tmp_path), ["w"])
        found += ask(model(provider, tmp_path), ["w", "bad"])
        ended = {"status": "failed", "errors": {"data": [{"message": f"bad {KEY}"}]}}
        provider.end = lambda _: dict(ended)
        found += ask(model(provider, tmp_path), ["v"])
    assert texts(found) == ["request", "the key is ***", "request", "request"]
    assert all("***" in str(one) for one in found)
    assert not any(KEY in str(one) for one in found)
    ours = [path for path in tmp_path.iterdir() if ".output." not in path.name]
    ours = [path for path in ours if ".error." not in path.name]
    assert len(ours) >= 5
    assert not any(KEY in path.read_text() for path in ours)


# --- settings ---


def test_the_environment_names_the_endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(InputError, match="The model m needs an endpoint: set OPENAI_API_KEY"):
        open_batches("m", tmp_path)
    with Provider() as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
        monkeypatch.setenv("PEARL_TEMPERATURE", "hot")
        with pytest.raises(InputError, match="PEARL_TEMPERATURE is wrong"):
            open_batches("m", tmp_path)
        monkeypatch.delenv("PEARL_TEMPERATURE")
        assert texts(ask(open_batches("m", tmp_path, BatchOptions(0.02, 0.01)), ["w"])) == said("w")
    none = "needs a model of an endpoint"
    mistakes = {"": none, "offline": none, "recorded:x": none, "responses:m": "over chat"}
    for name, told in mistakes.items():
        with pytest.raises(InputError, match=told):
            open_batches(name, tmp_path)


# --- the engine ---


def test_the_engine_works_around_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # What was turned away comes back within this time, while the next batch is gathered.
    monkeypatch.setattr(retry, "FIRST_WAIT", 0.02)
    tried: Counter[str] = Counter()

    def script(body: Body) -> Answer:
        text = body["messages"][0]["content"]
        tried[text] += 1
        busy = int(text[1:]) % 10 == 0 and tried[text] == 1
        return (429, {"error": {"message": "busy"}}) if busy else echo(body)

    async def work(provider: Provider) -> list[Reply]:
        one = model(provider, tmp_path, quiet=0.3)
        engine = start_engine(one, limits=EngineLimits(concurrency=10_000, first=10_000))
        found = await asyncio.gather(*(engine.ask(request(word)) for word in words(60)))
        await one.close()
        return list(found)

    with Provider(script=script) as provider:
        found = run(work(provider))
        assert texts(found) == said(words(60))
        assert [len(one.attempts) for one in found] == [1 if n % 10 == 0 else 0 for n in range(60)]
        assert {one.attempts[0].reason for one in found if one.attempts} == {"rate"}
        # All at once, and then what was turned away.
        assert [len(batch) for batch in provider.sent] == [60, 6]
        counts = Counter(one for batch in provider.sent for one in batch)
        assert counts == {key(f"w{n}"): 2 if n % 10 == 0 else 1 for n in range(60)}
