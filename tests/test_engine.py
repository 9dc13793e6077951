"""The layers around a model, each by itself: they know no HTTP, so what they ask is scripted."""

from __future__ import annotations

import asyncio
import gc
import pickle
import random
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from functools import wraps
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pearl.lang.errors import InputError, LinesError
from pearl.models.base import ModelError, Reply, Request, Usage
from pearl.models.middleware.budget import Amount, Budget, Ceiling, Grant, MemoryLedger, judge
from pearl.models.middleware.cache import (
    CACHED_FOR,
    SMALLEST,
    CacheLayer,
    PrefixWarmup,
    read_or_make,
)
from pearl.models.middleware.rate_limit import ConcurrencyLimiter, HaltError, RateLimiter, Throttle
from pearl.models.middleware.retry import TRIES, USELESS, Retry
from pearl.models.middleware.stack import EngineLimits, start_engine
from pearl.prompts.calls import MapAnswer
from pearl.runtime.context import ContextError
from pearl.runtime.loop import RunError

CALL = MapAnswer("q", "a", ("x", "y"))


def request(key: str = "k", document: str = "", stable: int = 0) -> Request:
    return Request(CALL, ({"role": "user", "content": "x"},), "map", key, stable, document)


async def together(works: Iterable[Coroutine[Any, Any, Any]]) -> None:
    await asyncio.gather(*works)


class Clock:
    """Runs a loop whose time stands still but for sleeping: hours pass in no time."""

    def __enter__(self) -> asyncio.AbstractEventLoop:
        self._now = 1000.0
        self._loop = loop = asyncio.new_event_loop()
        select = loop._selector.select  # type: ignore[attr-defined]

        def skipping(timeout: float | None) -> Any:
            found = select(0)
            assert found or timeout is not None, "nothing will ever happen"
            if not found and timeout:
                self._now += timeout
            return found

        loop._selector.select = skipping  # type: ignore[attr-defined]
        loop.time = lambda: self._now  # type: ignore[method-assign]
        return loop

    def __exit__(self, *_: object) -> None:
        self._loop.close()


def clocked(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that runs on such a loop."""

    @wraps(test)
    def run(*args: Any, **named: Any) -> None:
        with Clock() as loop:
            loop.run_until_complete(test(*args, **named))

    return run


class Endpoint:
    """Answers after some seconds; more calls than it has room for are turned away."""

    def __init__(self, seconds: float = 0.05, room: int = 10**9) -> None:
        self.seconds, self.room = seconds, room
        self.asked = self.refused = self.under_way = self.most = 0

    async def __call__(self, _: Request) -> Reply:
        self.asked += 1
        if self.under_way >= self.room:
            self.refused += 1
            raise ModelError("rate", "Too many.")
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.under_way -= 1
        return Reply("fine", Usage(10, 5))


def scripted(*answers: Reply | ModelError) -> Callable[[Request], Coroutine[Any, Any, Reply]]:
    left = list(answers)

    async def ask(_: Request) -> Reply:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, ModelError):
            raise answer
        return answer

    return ask


def limited(ask: Any, limiter: ConcurrencyLimiter) -> Throttle:
    """Limited in calls at a time, and neither in requests nor in tokens."""
    return Throttle(ask, limiter, None, None, lambda _: Usage())


# --- limit ---


@clocked
async def test_no_more_calls_are_under_way_than_the_limit_says():
    endpoint = Endpoint(0.001)
    calls = limited(endpoint, ConcurrencyLimiter(5))
    await asyncio.gather(*(calls(request()) for _ in range(100)))
    assert endpoint.most == 5


@clocked
async def test_the_limit_grows_to_what_the_endpoint_takes_and_stays_there():
    loop = asyncio.get_running_loop()
    endpoint, limiter = Endpoint(room=20), ConcurrencyLimiter(256)
    retried = Retry(limited(endpoint, limiter), limiter, 50)

    started = loop.time()
    await asyncio.gather(*(retried(request()) for _ in range(3000)))
    seconds = loop.time() - started
    assert endpoint.refused < 0.1 * endpoint.asked
    assert 3000 * 0.05 / 20 / seconds > 0.6


@clocked
async def test_a_burst_of_refusals_halves_the_limit_once():
    limiter = ConcurrencyLimiter(64, first=64)
    entered = [await limiter.enter() for _ in range(64)]
    await asyncio.sleep(0.001)
    for one in entered:
        limiter.leave(one, ModelError("rate", "no"))
    once = limiter.limit
    await asyncio.sleep(0.001)
    limiter.leave(await limiter.enter(), ModelError("rate", "no"))
    assert (once, limiter.limit) == (32, 16)


@clocked
async def test_slots_are_given_in_the_order_of_asking():
    order: list[int] = []
    limiter = ConcurrencyLimiter(1)

    async def one(number: int) -> None:
        entered = await limiter.enter()
        order.append(number)
        await asyncio.sleep(0)
        limiter.leave(entered)

    await asyncio.gather(*(one(number) for number in range(20)))
    assert order == list(range(20))


@clocked
async def test_a_pause_holds_everybody_and_a_shorter_one_does_not_end_it():
    loop = asyncio.get_running_loop()
    limiter = ConcurrencyLimiter(4)

    started = loop.time()
    limiter.pause(30)
    limiter.pause(5)

    async def one() -> float:
        limiter.leave(await limiter.enter())
        return loop.time() - started

    times = await asyncio.gather(*(one() for _ in range(10)))
    assert min(times) >= 30
    assert max(times) < 31


@clocked
async def test_stopping_wakes_whoever_waits_and_leaves_calls_under_way_alone():
    limiter = ConcurrencyLimiter(1)
    calls = limited(Endpoint(0.05), limiter)
    tasks = [asyncio.create_task(calls(request())) for _ in range(4)]
    tasks.append(asyncio.create_task(limiter.sleep(600)))
    await asyncio.sleep(0.01)
    error = ModelError("budget", "Enough.")
    error.args = ("Enough. (5 tries)",)
    limiter.stop(error)
    first, *others = await asyncio.gather(*tasks, return_exceptions=True)
    with pytest.raises(HaltError, match=r"^Enough\.$"):
        await limiter.enter()
    assert first.text == "fine"
    assert all(isinstance(one, HaltError) and one.reason == "budget" for one in others)


@pytest.mark.parametrize("seed", range(4))
@clocked
async def test_cancelled_calls_lose_no_slot(seed: int):
    drawn, limiter = random.Random(seed), ConcurrencyLimiter(3)
    calls = limited(Endpoint(0.001), limiter)
    tasks = [asyncio.create_task(calls(request())) for _ in range(300)]
    while any(not task.done() for task in tasks):
        drawn.choice(tasks).cancel()
        await asyncio.sleep(0.0005 * drawn.random())
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (await calls(request())).text == "fine"
    assert limiter.in_flight == 0


@clocked
async def test_no_minute_takes_more_than_its_limit_and_a_second():
    loop = asyncio.get_running_loop()
    pace = RateLimiter(600)
    times: list[float] = []

    async def one() -> None:
        await pace.take(1)
        times.append(loop.time())

    await together(one() for _ in range(2000))
    for start in times[::50]:
        assert sum(start <= one < start + 60 for one in times) <= 611


@clocked
async def test_an_amount_larger_than_a_minute_s_goes_through_and_is_waited_for():
    loop = asyncio.get_running_loop()
    pace = RateLimiter(60)

    started = loop.time()
    await pace.take(120)
    first = loop.time() - started
    pace.correct(-60)
    await pace.take(1)
    second = loop.time() - started
    assert first == 0
    assert 58 <= second <= 60


@clocked
async def test_more_calls_at_a_time_that_get_no_more_done_are_not_made():
    """An endpoint that turns nobody away, and does twenty calls a second however many it has."""
    loop = asyncio.get_running_loop()
    limiter, free = ConcurrencyLimiter(256), [0.0]

    async def ask(_: Request) -> Reply:
        now = loop.time()
        free[0] = max(free[0], now) + 0.05
        await asyncio.sleep(max(1.0, free[0] - now))
        return Reply("fine")

    throttled = limited(ask, limiter)
    await together(throttled(request()) for _ in range(3000))
    # Twenty at a time would do as much as the 256 that it came to at first.
    assert 20 <= limiter.limit < 180


@clocked
async def test_the_limit_doubles_a_round_and_grows_where_calls_are_exactly_as_many():
    """Four calls at a time, none of which waits, are a round of four."""
    limiter = ConcurrencyLimiter(64, first=4)

    # Whoever leaves first frees a slot: from then on the limit is not reached.
    limits = []
    for _ in range(4):
        entered = [await limiter.enter() for _ in range(limiter.limit)]
        await asyncio.sleep(1)
        for one in entered:
            limiter.leave(one)
        limits.append(limiter.limit)
    assert limits == [5, 6, 7, 8]

    limiter = ConcurrencyLimiter(64, first=4)
    endpoint = Endpoint(1)
    throttled = limited(endpoint, limiter)
    await together(throttled(request()) for _ in range(4 + 8 + 16))
    assert endpoint.most == 16


# --- retry ---


def retrying(*answers: Reply | ModelError, tries: int = TRIES) -> Reply:
    with Clock() as loop:
        limiter = ConcurrencyLimiter(8)
        return loop.run_until_complete(Retry(scripted(*answers), limiter, tries)(request()))


def test_what_passes_is_tried_again_and_told():
    trouble = ModelError("server", "Broken.", usage=Usage(7, 0))
    reply = retrying(trouble, ModelError("connection", "Gone."), Reply("fine"))
    assert reply.text == "fine"
    assert [(one.reason, one.usage.prompt_tokens) for one in reply.attempts] == [
        ("server", 7), ("connection", 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "tries"),
    [("server", TRIES), ("rate", TRIES), ("timeout", TRIES), ("connection", TRIES),
     ("reply", USELESS), ("empty", USELESS), ("request", 1), ("refusal", 1), ("cut", 1),
     ("authentication", 1), ("quota", 1), ("context", 1), ("recording", 1)],
)  # fmt: skip
def test_each_reason_has_its_number_of_tries(reason: str, tries: int):
    with pytest.raises(ModelError) as caught:
        retrying(ModelError(reason, "No."))
    assert (caught.value.reason, len(caught.value.attempts)) == (reason, tries)
    assert str(caught.value) == (f"No. ({tries} tries)" if tries > 1 else "No.")


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@clocked
async def test_a_further_try_waits_a_tenth_of_a_doubling_time_at_least(share: float):
    class Drawn(random.Random):
        def random(self) -> float:
            return share

    times: list[float] = []

    async def ask(_: Request) -> Reply:
        times.append(asyncio.get_running_loop().time())
        raise ModelError("server", "Broken.")

    limiter = ConcurrencyLimiter(8)
    with pytest.raises(ModelError, match=r"Broken\. \(9 tries\)"):
        await Retry(ask, limiter, 9, random=Drawn())(request())
    waits = [later - earlier for earlier, later in pairwise(times)]
    longest = [0.5, 1, 2, 4, 8, 16, 20, 20]
    assert waits == pytest.approx([(0.1 + 0.9 * share) * one for one in longest], abs=0.01)


@pytest.mark.parametrize(("asked", "tries"), [(120.0, 2), (120.1, 1), (600.0, 1)])
@clocked
async def test_the_longest_wait_is_waited_and_a_longer_one_holds_nobody(asked: float, tries: int):
    loop, limiter = asyncio.get_running_loop(), ConcurrencyLimiter(8)
    ask = scripted(ModelError("rate", "Later.", retry_after=asked))
    started = loop.time()
    with pytest.raises(ModelError) as caught:
        await Retry(ask, limiter, 2)(request())
    assert len(caught.value.attempts) == tries
    assert ("longer than the 2 minutes" in str(caught.value)) == (tries == 1)
    assert ("wait 10 minutes" in str(caught.value)) == (asked == 600)
    if tries == 1:
        limiter.leave(await limiter.enter())
        assert loop.time() == started


@pytest.mark.parametrize(("reason", "stopped"), [("quota", True), ("server", False)])
@clocked
async def test_a_final_error_stops_every_further_call(reason: str, stopped: bool):
    model = Named()
    model.answer = scripted(ModelError(reason, "No."), Reply("fine"))  # type: ignore[method-assign]

    engine = start_engine(model, limits=EngineLimits(tries=1))
    [first] = await asyncio.gather(engine.ask(request()), return_exceptions=True)
    [second] = await asyncio.gather(engine.ask(request()), return_exceptions=True)
    assert (first.reason, isinstance(second, HaltError)) == (reason, stopped)


@pytest.mark.parametrize("reason", ["timeout", "connection"])
@clocked
async def test_an_endpoint_that_answers_no_more_stops_every_further_call(reason: str):
    loop, model, asked = asyncio.get_running_loop(), Named(), 0

    async def answer(_: Request) -> Reply:
        nonlocal asked
        asked += 1
        if asked <= 100:
            return Reply("fine")
        await asyncio.sleep(2)
        raise ModelError(reason, "Nothing came.")

    model.answer = answer  # type: ignore[method-assign]
    engine = start_engine(model)
    for _ in range(20):
        await asyncio.gather(*(engine.ask(request()) for _ in range(5)))
    began = loop.time()
    told = await asyncio.gather(*(engine.ask(request()) for _ in range(64)), return_exceptions=True)
    assert all(isinstance(error, ModelError) for error in told)
    assert engine.stopped
    assert engine.stopped.reason == reason
    # Fifteen tries one after another, of two seconds each, and the pauses between some.
    assert loop.time() - began < 90


@clocked
async def test_tries_that_fail_at_once_are_one_sign():
    limiter = ConcurrencyLimiter(64, 64)
    entered = [await limiter.enter() for _ in range(64)]
    await asyncio.sleep(1)
    for moment in entered:
        limiter.leave(moment, ModelError("connection", "Broken off."))
    assert (limiter.unanswered, limiter.dead) == (1, False)


@pytest.mark.parametrize(("rpm", "tpm", "seconds"), [(60, None, 3), (None, 600, 6), (60, 600, 6)])
@clocked
async def test_requests_and_tokens_a_minute_are_held(
    rpm: int | None, tpm: int | None, seconds: int
):
    """A call is expected to take 20 tokens, and takes 15: what it did not take is given back."""
    loop = asyncio.get_running_loop()
    paces = [RateLimiter(pace) if pace else None for pace in (rpm, tpm)]
    throttled = Throttle(Endpoint(0), ConcurrencyLimiter(8), *paces, lambda _: Usage(20))

    # A second's worth goes at once: 1 request, or 10 tokens.
    started = loop.time()
    for _ in range(5):
        await throttled(request())
    assert loop.time() - started == pytest.approx(seconds, abs=1)


@clocked
async def test_everybody_waits_as_long_as_the_endpoint_asks():
    loop = asyncio.get_running_loop()
    limiter, endpoint = ConcurrencyLimiter(8), Endpoint(0.05)
    first = scripted(ModelError("rate", "Later.", retry_after=40.0), Reply("fine"))

    started = loop.time()
    inner = limited(first, limiter)
    one = asyncio.create_task(Retry(inner, limiter)(request()))
    await asyncio.sleep(1)
    other = limited(endpoint, limiter)
    await other(request())
    seconds, attempts = loop.time() - started, len((await one).attempts)
    assert 40 <= seconds < 41
    assert attempts == 1


# --- warm ---


def document(name: str = "d") -> Request:
    return request(document=name, stable=SMALLEST)


@clocked
async def test_a_document_s_first_call_goes_alone():
    under_way, seen = 0, []

    async def ask(_: Request) -> Reply:
        nonlocal under_way
        under_way += 1
        seen.append(under_way)
        await asyncio.sleep(0.01)
        under_way -= 1
        return Reply("fine")

    warmed = PrefixWarmup(ask)
    await asyncio.gather(*(warmed(document()) for _ in range(5)))
    assert seen == [1, 1, 2, 3, 4]


@clocked
async def test_after_a_first_call_that_fails_the_next_goes_alone():
    calls = most = under_way = 0

    async def ask(_: Request) -> Reply:
        nonlocal calls, most, under_way
        calls += 1
        number, under_way = calls, under_way + 1
        if number <= 3:
            most = max(most, under_way)
        await asyncio.sleep(0.005)
        under_way -= 1
        if number <= 2:
            raise ModelError("server", "No.")
        return Reply("fine")

    warmed = PrefixWarmup(ask)
    tasks = [asyncio.create_task(warmed(document())) for _ in range(6)]
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert most == 1
    assert sum(isinstance(one, ModelError) for one in results) == 2


@clocked
async def test_documents_are_forgotten_after_a_while_and_when_there_are_too_many():
    """A document that is forgotten is warmed up again: its next call goes alone."""

    async def most(names: str, pause: float = 0.0) -> int:
        """Calls at a time on the first document, after calls on all of them."""
        endpoint = Endpoint(1.0)
        warmup = PrefixWarmup(endpoint, most=3)
        for name in names:
            await warmup(document(name))
        await asyncio.sleep(pause)
        endpoint.most = 0
        await asyncio.gather(*(warmup(document(names[0])) for _ in range(3)))
        return endpoint.most

    # Warm, three go at once; cold, one goes alone and then two.
    found = [await most(names) for names in ("abc", "abcd", "abcad")]
    assert found == [3, 2, 3]
    assert await most("a", CACHED_FOR - 5) == 3
    assert await most("a", CACHED_FOR + 5) == 2


@pytest.mark.parametrize("plain", [request(), request(document="d", stable=SMALLEST - 1)])
@clocked
async def test_other_calls_are_not_held(plain: Request):
    endpoint = Endpoint(0.005)
    warmed = PrefixWarmup(endpoint)
    await asyncio.gather(*(warmed(plain) for _ in range(5)))
    assert endpoint.most == 5


# --- budget ---


@pytest.mark.parametrize(
    ("spent", "reserved", "grant"),
    [(60, 30, Grant.GRANTED), (60, 31, Grant.WAIT), (90, 0, Grant.GRANTED), (91, 0, Grant.REFUSED)],
)
@pytest.mark.parametrize("kind", ["tokens", "cost"])
def test_a_budget_may_be_spent_to_the_last(kind: str, spent: int, reserved: int, grant: Grant):
    amount = {name: Amount(**{kind: name}) for name in (spent, reserved, 10)}
    ceiling = Ceiling(**{kind: 100})
    assert judge(ceiling, amount[spent], amount[reserved], amount[10]) is grant


def test_dollars_are_counted_in_millionths():
    limits = EngineLimits(max_cost=0.5, max_tokens=7, tries=1)
    assert limits.ceiling == Ceiling(7, 500_000)
    assert EngineLimits(tries=1).ceiling == Ceiling()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 50)), min_size=1, max_size=60),
    st.integers(10, 800),
)
@clocked
async def test_calls_side_by_side_never_exceed_a_budget(calls: list[tuple[int, int]], ceiling: int):
    """Each call takes at most what is expected of it."""
    limit = Ceiling(tokens=ceiling)
    ledger = MemoryLedger(limit)
    sent = 0

    async def one(expected: int, less: int) -> None:
        nonlocal sent
        spent = max(1, expected - less)

        async def ask(_: Request) -> Reply:
            nonlocal sent
            await asyncio.sleep(0.01)
            sent += spent
            return Reply("fine", Usage(spent, 0))

        layer = Budget(ask, ledger, limit, lambda _: Usage(expected, 0), lambda _: 0)
        (told,) = await asyncio.gather(layer(request()), return_exceptions=True)
        if isinstance(told, ModelError):
            assert told.reason == "budget"
            assert sent + expected > ceiling

    await together(one(*call) for call in calls)
    assert sent <= ceiling
    assert await ledger.spent() == Amount(sent, 0)


@pytest.mark.parametrize(
    ("answer", "spent"),
    [
        (Reply("fine", Usage(10, 1)), (10, 1)),
        # What an endpoint does not say counts as it was expected.
        (Reply("fine"), (300, 20)),
        (Reply("fine", Usage(10)), (10, 20)),
        (ModelError("reply", "empty", usage=Usage(40, 5)), (40, 5)),
        (ModelError("reply", "empty"), (300, 20)),
        (ModelError("timeout", "late"), (300, 20)),
        (ModelError("connection", "broken off"), (300, 20)),
        (ModelError("connection", "unreachable", sent=False), (0, 0)),
        (ModelError("timeout", "says the endpoint", status=408), (0, 0)),
        (ModelError("rate", "slow down", status=429), (0, 0)),
    ],
)
@clocked
async def test_every_try_counts_as_what_it_cost(answer: Reply | ModelError, spent: tuple[int, int]):
    ledger = MemoryLedger(Ceiling(tokens=1000))
    layer = Budget(
        scripted(answer), ledger, Ceiling(tokens=1000), lambda _: Usage(300, 20),
        lambda usage: usage.prompt_tokens,
    )  # fmt: skip
    with suppress(ModelError):
        assert (await layer(request())).usage == Usage(*spent)
    assert await ledger.spent() == Amount(sum(spent), spent[0])


@clocked
async def test_an_error_that_a_model_raises_twice_tells_of_one_call_at_a_time():
    wrong, why = ModelError("server", "The endpoint failed."), OSError("no name")

    async def fails(sent: Request) -> Reply:
        raise wrong from why

    retry = Retry(fails, ConcurrencyLimiter(), tries=2)
    for _ in range(2):
        with pytest.raises(ModelError, match=r"^The endpoint failed\. \(2 tries\)$") as told:
            await retry(request())
        assert len(told.value.attempts) == 2
        assert told.value.__cause__ is why
    assert (str(wrong), wrong.attempts) == ("The endpoint failed.", ())


@clocked
async def test_a_try_that_the_budget_does_not_allow_is_not_made():
    limit, asked = Ceiling(tokens=1000), []

    async def empty(sent: Request) -> Reply:
        asked.append(sent.limit)
        raise ModelError("reply", "The model sent an empty answer.", usage=Usage(400, 20))

    ledger = MemoryLedger(limit)
    budget = Budget(empty, ledger, limit, lambda _: Usage(400, 20), lambda _: 0)
    with pytest.raises(ModelError, match="raise --max-tokens") as told:
        await Retry(budget, ConcurrencyLimiter())(request())
    assert told.value.reason == "budget"
    assert [one.reason for one in told.value.attempts] == ["reply", "reply"]
    # With a budget, a reply is told how long it may be.
    assert asked == [20, 20]
    assert await ledger.spent() == Amount(840, 0)


@clocked
async def test_what_was_given_back_while_a_refusal_is_worded_is_no_limit_in_dollars():
    class Shrinking(MemoryLedger):
        async def spent(self) -> Amount:
            return Amount()

    limit = Ceiling(tokens=10)
    ledger = Shrinking(limit)
    await ledger.settle(Amount(), Amount(9))
    layer = Budget(scripted(), ledger, limit, lambda _: Usage(5), lambda _: 0)
    with pytest.raises(ModelError, match="raise --max-tokens"):
        await layer(request())


@pytest.mark.parametrize(
    "error",
    [
        ModelError("budget", "It is spent.", status=402),
        HaltError("stopped", "Stopped."),
        ContextError("It does not fit.", "a"),
        RunError("No step ran."),
        LinesError(["one", "two"], 3),
        InputError("Give a number."),
    ],
)
def test_an_error_comes_whole_out_of_another_process(error: Exception):
    if isinstance(error, ModelError):
        # Its text may say more than its message.
        error.args = (f"{error.message} (2 tries)",)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


@clocked
async def test_an_endpoint_that_passes_over_the_limit_is_expected_to_do_so_again():
    limit = Ceiling(tokens=1000)
    ledger = MemoryLedger(limit)
    layer = Budget(scripted(Reply("long", Usage(10, 600))), ledger, limit,
                   lambda _: Usage(10, 20), lambda _: 0)  # fmt: skip
    await layer(request())
    with pytest.raises(ModelError, match="may take 610 tokens"):
        await layer(request())


@clocked
async def test_a_call_cut_off_under_way_counts_as_expected():
    limit = Ceiling(tokens=100)
    ledger = MemoryLedger(limit)
    layer = Budget(Endpoint(10), ledger, limit, lambda _: Usage(100, 0), lambda _: 0)
    task = asyncio.create_task(layer(request()))
    await asyncio.sleep(0.005)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await ledger.reserve(Amount(1, 0)) is Grant.REFUSED


# --- keep ---


class ReplyCache:
    """Keeps replies in memory; says so often that another process is at a call."""

    def __init__(self, busy: int = 0) -> None:
        self.kept: dict[str, Reply] = {}
        self.busy = busy
        self.dropped = 0

    async def claim(self, scope: str, key: str) -> Reply | bool:
        await asyncio.sleep(0)
        if self.busy:
            self.busy -= 1
            return False
        return self.kept.get(key, True)

    def put(self, scope: str, key: str, reply: Reply, model: str, identity: str) -> Reply:
        self.kept[key] = Reply(reply.text, reply.usage, kept=True)
        return reply

    def release(self, scope: str, key: str) -> None:
        self.dropped += 1


class Named:
    name = identity = "m"
    notice = ""

    async def answer(self, request: Request) -> Reply:
        raise AssertionError("it is asked through the layer only")

    async def close(self) -> None:
        return


@clocked
async def test_identical_calls_under_way_are_made_once():
    endpoint = Endpoint(0.01)
    kept = CacheLayer(endpoint, ReplyCache(), "", Named())
    replies = await asyncio.gather(*(kept(request()) for _ in range(10)), kept(request("j")))
    replies.append(await kept(request()))
    assert endpoint.asked == 2
    assert sum(not reply.kept for reply in replies) == 2


@pytest.mark.parametrize(
    ("layer", "asked"),
    [
        (lambda ask: PrefixWarmup(ask), document()),
        (lambda ask: CacheLayer(ask, ReplyCache(), "", Named()), request()),
    ],
)
@clocked
async def test_whoever_waits_leads_where_the_leader_is_cancelled(
    layer: Callable[[Any], Any], asked: Request
):
    ask = layer(Endpoint(0.02))
    tasks = [asyncio.create_task(ask(asked)) for _ in range(3)]
    await asyncio.sleep(0.005)
    tasks[0].cancel()
    first, *others = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(first, asyncio.CancelledError)
    assert [one.text for one in others] == ["fine", "fine"]


@clocked
async def test_a_failure_is_shared_without_its_bill():
    replies, error = ReplyCache(), ModelError("request", "No.", usage=Usage(9, 9))
    error.args = ("No. (5 tries)",)

    async def ask(_: Request) -> Reply:
        await asyncio.sleep(0.005)
        raise error

    kept = CacheLayer(ask, replies, "", Named())
    tasks = [kept(request()) for _ in range(3)]
    errors = await asyncio.gather(*tasks, return_exceptions=True)
    assert [one.reason for one in errors] == ["request"] * 3
    assert sorted(one.usage.prompt_tokens for one in errors) == [0, 0, 9]
    assert sorted(map(str, errors)) == ["No.", "No.", "No. (5 tries)"]
    assert replies.dropped == 1


def test_a_failure_that_nobody_else_waits_for_is_not_complained_of():
    complaints: list[dict[str, Any]] = []

    async def work() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told))
        cached = CacheLayer(scripted(ModelError("request", "No.")), ReplyCache(), "", Named())
        with pytest.raises(ModelError, match="No"):
            await cached(request())

    asyncio.run(work())
    gc.collect()
    assert complaints == []


@clocked
async def test_a_call_that_another_process_makes_is_waited_for():
    endpoint, replies = Endpoint(0), ReplyCache(busy=3)
    replies.kept |= {"k": Reply("theirs", kept=True), "f": Reply("[1]", kept=True)}
    reply = await CacheLayer(endpoint, replies, "", Named())(request())
    assert (endpoint.asked, reply) == (0, Reply("theirs", kept=True))
    made: list[str] = []

    async def make() -> list[int]:
        made.append("again")
        return [2]

    replies.busy = 3
    assert await read_or_make(replies, "", "f", "function F", make) == [1]
    assert made == []
