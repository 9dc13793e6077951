"""A run's models, each in its layers.

From the outside in: the circuit breaker, the cache, the prefix warm-up, the
retries, the limits of rate and concurrency, the budget, the model. Several
models have all but the breaker to themselves, over one store and one ledger:
what one of them is refused for good, ends the run, as no question could be
answered without it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from pearl.lang.errors import check_numbers, check_whole
from pearl.models.base import Ask, Model, ModelError, Request, Usage, env_number
from pearl.models.constraints import SCHEMAS, Forms, Mode, forms_taken, request_fields
from pearl.models.middleware.budget import Amount, Budget, Ceiling, Ledger, MemoryLedger
from pearl.models.middleware.cache import CacheLayer, Keep, PrefixWarmup, ReplyCache, read_or_make
from pearl.models.middleware.circuit_breaker import CircuitBreaker
from pearl.models.middleware.rate_limit import (
    CEILING,
    FIRST,
    ConcurrencyLimiter,
    RateLimiter,
    Throttle,
)
from pearl.models.middleware.retry import TRIES, Retry
from pearl.models.routing import members
from pearl.models.tokens import (
    BYTES_A_TOKEN,
    FREE,
    NO_PRICES,
    OVERHEAD,
    REASONED,
    REASONING,
    REPLY,
    Prices,
    count_tokens,
)
from pearl.prompts.calls import WritePlan

MOST_AT_ONCE = 10_000
"""Calls under way at a time, at most."""


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """How fast, and how much of it.

    Args:
        concurrency: calls under way at most; 0 leaves it to adapt.
        first: calls under way at most to begin with.
        rpm: requests a minute; None is no limit.
        tpm: tokens a minute; None is no limit.
        max_wait: seconds that an endpoint may ask everybody to wait.
        max_cost: dollars that may be spent; None is no limit.
        max_tokens: tokens that may be spent; None is no limit.
        tries: how often a call is tried in all; by default as ``PEARL_TRIES`` says.

    Raises:
        InputError: one is below 0, too large, or not whole where it is to be.
    """

    concurrency: int = 0
    first: int = FIRST
    rpm: float | None = None
    tpm: float | None = None
    max_wait: float = 120.0
    max_cost: float | None = None
    max_tokens: int | None = None
    tries: int = field(default_factory=lambda: env_number("PEARL_TRIES") or TRIES)

    def __post_init__(self) -> None:
        names = ("rpm", "tpm", "max_wait", "max_cost")
        check_numbers(**{name: getattr(self, name) for name in names})
        check_whole(max_tokens=self.max_tokens)
        check_whole(most=MOST_AT_ONCE, concurrency=self.concurrency)

    @property
    def ceiling(self) -> Ceiling:
        """What may be spent."""
        cost = None if self.max_cost is None else round(1e6 * self.max_cost)
        return Ceiling(self.max_tokens, cost)

    def less(self, spent: Mapping[str, Usage], prices: Prices) -> EngineLimits:
        """What is left of them when so many tokens of these models are spent, at these prices."""
        cost, tokens = self.max_cost, self.max_tokens
        if cost is not None:
            cost = max(0.0, cost - (prices.cost(spent) or 0) / 1e6)
        if tokens is not None:
            tokens = max(0, tokens - sum(usage.total for usage in spent.values()))
        return replace(self, max_cost=cost, max_tokens=tokens)


@dataclass(frozen=True)
class Engine:
    """A run's models in their layers.

    Args:
        ask: the outermost layer.
        model: the model within, or the several.
        limiters: how many calls are under way, for each model.
        replies: where replies are kept; None where they are not.
        constrain: whether replies are held to grammars and schemas.
        scope: which of the kept replies count.
    """

    ask: Ask
    model: Model
    limiters: tuple[ConcurrencyLimiter, ...]
    replies: ReplyCache | None = None
    constrain: Mode = "never"
    scope: str = ""

    @property
    def keep(self) -> Keep | None:
        """Keeps what others beside the model gave; None where nothing is kept."""
        return partial(read_or_make, self.replies, self.scope) if self.replies else None

    @property
    def forms(self) -> Forms | None:
        """In which forms the model takes constraints; None where replies are free."""
        return None if self.constrain == "never" else forms_taken(self.model)

    @property
    def stopped(self) -> ModelError | None:
        """Why no further call is made, or None."""
        return next((limiter.stopped for limiter in self.limiters if limiter.stopped), None)

    def stop(self, error: ModelError) -> None:
        """Make no further call; those under way go on."""
        for limiter in self.limiters:
            limiter.stop(error)


def start_engine(
    model: Model,
    replies: ReplyCache | None = None,
    scope: str = "",
    limits: EngineLimits | None = None,
    prices: Prices = NO_PRICES,
    ledger: Ledger | None = None,
    constrain: Mode = "never",
) -> Engine:
    """Put models in their layers, from the model outwards.

    Args:
        model: who answers, or the several who do.
        replies: where replies are kept; None keeps none.
        scope: which of its replies count.
        limits: how fast, for each model; and how much of it, for all together.
        prices: what tokens cost, where that is known.
        ledger: where spending is added up, earlier goes' too; by default in this process.
        constrain: whether replies are held to grammars and schemas.
    """
    limits = limits or EngineLimits()
    if ledger is None and limits.ceiling != Ceiling():
        ledger = MemoryLedger(limits.ceiling, Amount())
    layers: dict[int, Ask] = {}
    limiters: dict[int, ConcurrencyLimiter] = {}
    for member in members(model):
        limiter = ConcurrencyLimiter(limits.concurrency or CEILING, limits.first)
        limiters[id(member)] = limiter
        usual = REASONED if REASONING.search(member.name) else REPLY
        reply = env_number("PEARL_MAX_TOKENS") or usual
        expect = partial(upper, model=member.name, reply=reply)
        ask: Ask = member.answer
        if ledger is not None:
            cost = (prices.get(member.name) or FREE).cost
            ask = Budget(ask, ledger, limits.ceiling, expect, cost, limiter.sleep)
        requests = RateLimiter(limits.rpm) if limits.rpm else None
        tokens = RateLimiter(limits.tpm) if limits.tpm else None
        ask = Throttle(ask, limiter, requests, tokens, expect)
        ask = PrefixWarmup(Retry(ask, limiter, limits.tries, limits.max_wait))
        if replies is not None:
            ask = CacheLayer(ask, replies, scope, member, limiter.sleep)
        layers[id(member)] = ask
    breaker = CircuitBreaker(model, layers, limiters)
    return Engine(breaker, model, tuple(limiters.values()), replies, constrain, scope)


def upper(request: Request, model: str, reply: int = REPLY) -> Usage:
    """At least as many tokens as the call takes, but for a reply of unusual length.

    Counting a whole prompt costs as much again as the call, so the part that all steps on a
    document share is counted once and the rest is bounded by its length. A grammar that a server's
    decoder is given is no token of the prompt; that of a tool is, and so is a schema.

    Args:
        request: the call.
        model: whose vocabulary to count with.
        reply: tokens that the reply may have.
    """
    *before, last = [message["content"] for message in request.messages]
    shared, held = request.stable, request.constraint
    if not shared and isinstance(request.call, WritePlan):
        # Everything before the question is the same for every question.
        shared = last.rfind(request.call.question)
    tokens = sum(count_tokens(text, model) for text in (*before, last[:shared]))
    bounded = [len(last[shared:].encode("utf-8", "replace"))]
    if held is not None and held.form in ("custom_tool", *SCHEMAS):
        bounded.append(len(json.dumps(request_fields(held))))
    return Usage(OVERHEAD + tokens + sum(int(size / BYTES_A_TOKEN) + 1 for size in bounded), reply)
