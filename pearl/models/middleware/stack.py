"""Puts each of a run's models in its layers.

From the outside in: the circuit breaker, the cache, the prefix warm-up, the
retries, the limits of rate and concurrency, the budget, the model. Each of
several models has layers of its own, over one store and one ledger. They share
only the circuit breaker: if one model fails for good, the run ends, as no
question could be answered without it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from pearl.lang.errors import InputError, check_numbers, check_whole
from pearl.models.base import Ask, Model, ModelError, Request, Usage, env_number
from pearl.models.constraints import SCHEMAS, Forms, Mode, forms_taken, request_fields
from pearl.models.middleware.budget import Budget, Ceiling, Ledger, MemoryLedger
from pearl.models.middleware.cache import CacheLayer, Keep, PrefixWarmup, ReplyCache, read_or_make
from pearl.models.middleware.circuit_breaker import CircuitBreaker
from pearl.models.middleware.rate_limit import FIRST, ConcurrencyLimiter, RateLimiter, Throttle
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
"""The largest number of concurrent calls that a person may set."""


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """The limits of a run: of rate, concurrency, tries and spending.

    Args:
        concurrency: the most concurrent calls; 0 lets Pearl adapt the number.
        first: the most concurrent calls to begin with.
        rpm: the most requests a minute; None is no limit.
        tpm: the most tokens a minute; None is no limit.
        max_wait: the longest pause, in seconds, that an endpoint may ask for.
        max_cost: the most dollars to spend; None is no limit.
        max_tokens: the most tokens to spend; None is no limit.
        tries: the most tries of a call; by default what ``PEARL_TRIES`` says.

    Raises:
        InputError: a number is below 0, too large, or a fraction where it may not be.
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
        """The tokens and millionths of a dollar that may be spent."""
        cost = None if self.max_cost is None else round(1e6 * self.max_cost)
        return Ceiling(self.max_tokens, cost)

    def less(self, spent: Mapping[str, Usage], prices: Prices) -> EngineLimits:
        """The limits that are left once each model, by its name, has spent some tokens."""
        cost, tokens = self.max_cost, self.max_tokens
        if cost is not None:
            cost = max(0.0, cost - (prices.cost(spent) or 0) / 1e6)
        if tokens is not None:
            tokens = max(0, tokens - sum(usage.total for usage in spent.values()))
        return replace(self, max_cost=cost, max_tokens=tokens)


def check_priced(limits: EngineLimits, model: Model, prices: Prices) -> None:
    """Make sure that a limit of the cost can be kept.

    Raises:
        InputError: the price of a model is not known.
    """
    unpriced = [each.name for each in members(model) if prices.get(each.name) is None]
    if limits.max_cost is not None and unpriced:
        raise InputError(
            f"No price is known for {unpriced[0]}, so --max-cost cannot be kept: give one in the "
            "table that PEARL_PRICES or a job's --prices names, or limit tokens: --max-tokens."
        )


@dataclass(frozen=True)
class Engine:
    """A run's models in their layers.

    Args:
        ask: the outermost layer.
        model: the run's model, or `Models`.
        limiters: the limiter of concurrent calls of each model.
        replies: where replies are stored; None where they are not.
        constrain: whether replies are constrained by grammars and schemas.
        scope: the scope of stored replies that may be used.
    """

    ask: Ask
    model: Model
    limiters: tuple[ConcurrencyLimiter, ...]
    replies: ReplyCache | None = None
    constrain: Mode = "never"
    scope: str = ""

    @property
    def keep(self) -> Keep | None:
        """Stores what tools and functions gave beside the replies; None where none are stored."""
        return partial(read_or_make, self.replies, self.scope) if self.replies else None

    @property
    def forms(self) -> Forms | None:
        """The forms in which the model takes constraints; None where replies have none."""
        return None if self.constrain == "never" else forms_taken(self.model)

    @property
    def stopped(self) -> ModelError | None:
        """Why no further call is made, or None."""
        return next((limiter.stopped for limiter in self.limiters if limiter.stopped), None)

    def stop(self, error: ModelError) -> None:
        """Stop further calls; those under way go on."""
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
        model: the run's model, or `Models`.
        replies: where replies are stored; None stores none.
        scope: the scope of stored replies that may be used.
        limits: limits of rate for each model, and of spending for all together.
        prices: what tokens cost, where that is known.
        ledger: adds up the spending, also of earlier runs; by default that of this process.
        constrain: whether replies are constrained by grammars and schemas.
    """
    limits = limits or EngineLimits()
    if ledger is None and limits.ceiling != Ceiling():
        ledger = MemoryLedger(limits.ceiling)
    layers: dict[int, Ask] = {}
    limiters: dict[int, ConcurrencyLimiter] = {}
    for member in members(model):
        limiter = ConcurrencyLimiter(limits.concurrency, limits.first)
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
    """An upper bound of the tokens of a call, unless its reply is unusually long.

    Counting a whole prompt takes as long as the call, so the part that all steps on a document
    share is counted once, and the rest is bounded by its length. A grammar that a server's decoder
    takes adds no tokens to the prompt; that of a tool does, and so does a schema.

    Args:
        request: the call.
        model: the name of the model in whose vocabulary to count.
        reply: the most tokens expected of the reply.
    """
    *before, last = [message["content"] for message in request.messages]
    shared, constraint = request.stable, request.constraint
    if not shared and isinstance(request.call, WritePlan):
        # Everything before the question is the same for every question.
        shared = last.rfind(request.call.question)
    tokens = sum(count_tokens(text, model) for text in (*before, last[:shared]))
    bounded = [len(last[shared:].encode("utf-8", "replace"))]
    if constraint is not None and constraint.form in ("custom_tool", *SCHEMAS):
        bounded.append(len(json.dumps(request_fields(constraint))))
    return Usage(OVERHEAD + tokens + sum(int(size / BYTES_A_TOKEN) + 1 for size in bounded), reply)
