"""The one layer that asks again."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field, replace

from pearl.models.base import PASSING, SILENT, UNUSABLE, Ask, FailedTry, ModelError, Reply, Request
from pearl.models.middleware.rate_limit import ConcurrencyLimiter, HaltError
from pearl.prompts.calls import ProveForm

TRIES = 5
"""How often a call is tried in all."""

USELESS = 3
"""How often where the endpoint answers, and with nothing usable."""

FIRST_WAIT = 0.5
"""Seconds before the second try, at most; each further wait is twice as long."""

TURNED_AWAY = 4
"""How many times as long it is where the endpoint turns calls away, whose number it counts by the
minute as a rule."""

LONGEST_BACKOFF = 20.0
"""Seconds between two tries at most, where the endpoint names no time."""

SHORTEST = 0.1
"""The share of the longest wait that is waited at least: a try at once would meet the same."""


@dataclass(frozen=True)
class Retry:
    """Tries a call again where that may help, and everybody waits where the endpoint asks for it.

    Args:
        ask: makes one try.
        limiter: holds everybody back during a pause.
        tries: how often a call is tried in all.
        longest_wait: seconds; an endpoint that asks for more gets no further try.
        random: spreads the waits.
    """

    ask: Ask
    limiter: ConcurrencyLimiter
    tries: int = TRIES
    longest_wait: float = 120.0
    random: random.Random = field(default_factory=random.Random)

    async def __call__(self, request: Request) -> Reply:
        """Answer; where no try gets a usable answer, the error lists them."""
        attempts: list[FailedTry] = []
        try:
            while True:
                began, started = time.time(), time.monotonic()
                try:
                    reply = await self.ask(request)
                except HaltError:
                    raise
                except ModelError as error:
                    spent = time.monotonic() - started
                    attempts.append(FailedTry(error.reason, str(error), error.usage, spent, began))
                    # A form that breaks the endpoint would do so again, and an endpoint that is
                    # broken or not there is found out by the call itself.
                    proving = isinstance(request.call, ProveForm) and error.reason in SILENT
                    wait = None if proving else self._wait(error, attempts)
                    if wait is None:
                        raise self._final_error(error, attempts) from None
                    if error.retry_after is None:
                        await self.limiter.sleep(wait)
                    else:
                        # Everybody meets the same limit: who asks on meanwhile makes it worse.
                        self.limiter.pause(wait)
                else:
                    return replace(reply, attempts=tuple(attempts)) if attempts else reply
        except HaltError as halted:
            raise HaltError(halted.reason, str(halted), tuple(attempts)) from None

    def _wait(self, error: ModelError, attempts: list[FailedTry]) -> float | None:
        """Seconds to the next try, or None where there is none."""
        useless = sum(attempt.reason in UNUSABLE for attempt in attempts)
        if error.reason not in PASSING or len(attempts) >= self.tries or useless >= USELESS:
            return None
        if self.limiter.dead:
            return None
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= self.longest_wait else None
        first = FIRST_WAIT * (TURNED_AWAY if error.reason == "rate" else 1)
        longest = min(LONGEST_BACKOFF, first * 2 ** (len(attempts) - 1))
        return self.random.uniform(SHORTEST * longest, longest)

    def _final_error(self, error: ModelError, attempts: list[FailedTry]) -> ModelError:
        """The error of a call that is not tried again: the last one's, and every try."""
        message, tries = error.message, len(attempts)
        if error.retry_after is not None and error.retry_after > self.longest_wait:
            message = (
                f"The endpoint asks to wait {_duration(error.retry_after)}, longer than the "
                f"{_duration(self.longest_wait)} that are waited for: run it again later, or as "
                "pearl batch with a longer --max-wait."
            )
            tries = 1
        return ModelError(
            error.reason,
            message,
            retry_after=error.retry_after,
            usage=error.usage,
            attempts=tuple(attempts),
            window=error.window,
            status=error.status,
            tries=tries,
        )


def _duration(seconds: float) -> str:
    return f"{seconds / 60:g} minutes" if seconds >= 120 else f"{seconds:g} seconds"
