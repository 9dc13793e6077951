"""The retry layer, the only one that makes a call again."""

from __future__ import annotations

import random
import time
from copy import copy
from dataclasses import dataclass, field, replace

from pearl.models.base import PASSING, SILENT, UNUSABLE, Ask, FailedTry, ModelError, Reply, Request
from pearl.models.middleware.rate_limit import ConcurrencyLimiter, HaltError
from pearl.prompts.calls import ProveForm

TRIES = 5
"""The most tries of a call in all."""

USELESS = 3
"""The most tries to which the endpoint answers with nothing usable."""

FIRST_WAIT = 0.5
"""The most seconds before the second try; each further wait may be twice as long."""

TURNED_AWAY = 4
"""The factor on the waits after a rate limit, which as a rule counts calls by the minute."""

LONGEST_BACKOFF = 20.0
"""The most seconds between two tries, where the endpoint names no time."""

SHORTEST = 0.1
"""The least share of a wait that is drawn at random: an immediate try would fail again."""


@dataclass(frozen=True)
class Retry:
    """Tries a call again where that may help; if the endpoint asks to wait, all calls wait.

    Args:
        ask: makes one try.
        limiter: holds all calls back during a pause.
        tries: the most tries of a call in all.
        longest_wait: the longest pause, in seconds, that an endpoint may ask for; after a longer
            one there is no further try.
        random: draws the waits.
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
                    # A proof is not retried: a form that makes the endpoint fail would do so
                    # again, and if the endpoint is down, the call itself will show it.
                    proving = isinstance(request.call, ProveForm) and error.reason in SILENT
                    wait = None if proving else self._wait(error, attempts)
                    if wait is None:
                        raise self._last(error, attempts) from error.__cause__
                    if error.retry_after is None:
                        await self.limiter.sleep(wait)
                    else:
                        # All calls meet the same limit, and calls during the pause extend it.
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

    def _last(self, error: ModelError, attempts: list[FailedTry]) -> ModelError:
        """The error of the last try, which tells of all; a copy, as a model may raise one twice."""
        error = copy(error)
        error.attempts = tuple(attempts)
        if error.retry_after is not None and error.retry_after > self.longest_wait:
            message = (
                f"The endpoint asks to wait {_duration(error.retry_after)}, longer than the "
                f"{_duration(self.longest_wait)} that are waited for: run it again later, or as "
                "pearl batch with a longer --max-wait."
            )
            error.reword(lambda _: message)
        elif len(attempts) > 1:
            error.args = (f"{error.message} ({len(attempts)} tries)",)
        return error


def _duration(seconds: float) -> str:
    return f"{seconds / 60:g} minutes" if seconds >= 120 else f"{seconds:g} seconds"
