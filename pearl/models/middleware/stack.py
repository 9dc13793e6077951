"""A model in its layers.

From the outside in: the circuit breaker, the cache, the budget, the prefix
warm-up, the retries, the limits of rate and concurrency, the model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from pearl.models.base import FINAL, Ask, Model, ModelError, Reply, Request, Usage, env_number
from pearl.models.constraints import Forms, Mode, TakesForms
from pearl.models.middleware.budget import Amount, Budget, Ceiling, Ledger, MemoryLedger
from pearl.models.middleware.cache import Cached, PrefixWarmup, ReplyCache
from pearl.models.middleware.rate_limit import (
    CEILING,
    FIRST,
    ConcurrencyLimiter,
    RateLimiter,
    Throttled,
)
from pearl.models.middleware.retry import TRIES, Retry
from pearl.models.tokens import REPLY, Price, upper


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
    """

    concurrency: int = 0
    first: int = FIRST
    rpm: float | None = None
    tpm: float | None = None
    max_wait: float = 120.0
    max_cost: float | None = None
    max_tokens: int | None = None
    tries: int = field(default_factory=lambda: env_number("PEARL_TRIES") or TRIES)

    @property
    def ceiling(self) -> Ceiling:
        """What may be spent."""
        cost = None if self.max_cost is None else round(1e6 * self.max_cost)
        return Ceiling(self.max_tokens, cost)


@dataclass(frozen=True)
class Engine:
    """A model in its layers.

    Args:
        ask: the outermost layer.
        model: the model within.
        limiter: how many calls are under way.
        replies: where replies are kept; None where they are not.
        constrain: whether replies are held to grammars and schemas.
    """

    ask: Ask
    model: Model
    limiter: ConcurrencyLimiter
    replies: ReplyCache | None = None
    constrain: Mode = "never"

    @property
    def identity(self) -> str:
        """Everything about the model that decides its answers."""
        return self.model.identity

    @property
    def forms(self) -> Forms | None:
        """In which forms the model takes constraints; None where replies are free."""
        if self.constrain == "never":
            return None
        return self.model.forms if isinstance(self.model, TakesForms) else Forms("", (), ())

    @property
    def stopped(self) -> ModelError | None:
        """Why no further call is made, or None."""
        return self.limiter.stopped

    def stop(self, error: ModelError) -> None:
        """Make no further call; those under way go on."""
        self.limiter.stop(error)


def start_engine(
    model: Model,
    replies: ReplyCache | None = None,
    scope: str = "",
    limits: EngineLimits | None = None,
    price: Price | None = None,
    spent: Usage | None = None,
    ledger: Ledger | None = None,
    constrain: Mode = "never",
) -> Engine:
    """Put a model in its layers, from the model outwards.

    Args:
        model: who answers.
        replies: where replies are kept; None keeps none.
        scope: which of its replies count.
        limits: how fast, and how much of it.
        price: what the model's tokens cost, where it is known.
        spent: what an earlier go of the same run has spent.
        ledger: where spending is added up; by default in this process.
        constrain: whether replies are held to grammars and schemas.
    """
    limits = limits or EngineLimits()
    limiter = ConcurrencyLimiter(limits.concurrency or CEILING, limits.first)
    requests = RateLimiter(limits.rpm) if limits.rpm else None
    tokens = RateLimiter(limits.tpm) if limits.tpm else None
    expect = partial(upper, model=model.name, reply=env_number("PEARL_MAX_TOKENS") or REPLY)
    ask: Ask = Throttled(
        model.answer, limiter, requests, tokens, lambda request: expect(request).total
    )
    ask = Retry(ask, limiter, limits.tries, limits.max_wait)
    ask = PrefixWarmup(ask)
    ceiling = limits.ceiling
    if ceiling != Ceiling():
        cost = price.cost if price else lambda _: 0
        spent = spent or Usage()
        ledger = ledger or MemoryLedger(ceiling, Amount(spent.total, cost(spent)))
        ask = Budget(ask, ledger, ceiling, expect, cost)
    if replies is not None:
        ask = Cached(ask, replies, scope, model, limiter.sleep)

    async def breaker(request: Request) -> Reply:
        """Stops everything at an error that every further call would meet again."""
        try:
            return await ask(request)
        except ModelError as error:
            if error.reason in FINAL:
                limiter.stop(error)
            raise

    return Engine(breaker, model, limiter, replies, constrain)
