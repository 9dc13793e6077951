"""The circuit breaker: ends a run at an error that every further call would meet too."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from pearl.models.base import FINAL, Ask, FailedTry, Model, ModelError, Reply, Request
from pearl.models.constraints import forms_taken
from pearl.models.middleware.rate_limit import FIRST, ConcurrencyLimiter
from pearl.models.routing import model_for
from pearl.prompts.calls import ProveForm
from pearl.prompts.render import render

DEAD = 3
"""The number of calls in a row that were not served, each after all its tries, that ends a run."""

UNSERVED = ("connection", "timeout", "rate")
"""Reasons of errors where the endpoint did not look at the call."""

UNREAD = (*UNSERVED, "server")
"""Reasons of errors where the endpoint may not have looked at the call."""

MISSING = 404
"""The status where there is no such address or model."""

ALIKE = 5
"""The number of calls in a row, failed in the same words, after which a model is tested."""

SAME = "Every call comes to the same."

_VARYING = re.compile(r"\S*\d\S*")
"""Words with digits, which differ from call to call: sizes, times, ids of requests."""


@dataclass(frozen=True)
class CircuitBreaker:
    """Stops all calls at an error that every further call would meet again.

    Args:
        model: the run's model, or `Models`.
        layers: the layers of each model, by the model's ``id``.
        limiters: the limiter of each model, likewise.
    """

    model: Model
    layers: Mapping[int, Ask]
    limiters: Mapping[int, ConcurrencyLimiter]
    _unserved: Counter[int] = field(default_factory=Counter, init=False)
    """For each model, the number of calls in a row that were not served."""
    _served: set[int] = field(default_factory=set, init=False)
    """Models that have answered a call."""
    _open: set[int] = field(default_factory=set, init=False)
    """Models with no limit of calls: they have answered, were tested, or fail in several ways."""
    _alike: dict[int, tuple[str, int]] = field(default_factory=dict, init=False)
    """The words in which each model's last calls failed, and how many since it last answered."""
    _tested: set[tuple[int, str]] = field(default_factory=set, init=False)
    """Models that were tested, with the words in which their calls had failed."""
    _begun: Counter[int] = field(default_factory=Counter, init=False)
    """For a model that is not open, the calls begun since it last had none under way."""
    _ended: Counter[int] = field(default_factory=Counter, init=False)
    """How many of these calls have ended."""
    _round_over: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    """Set for a moment when those who wait to begin a call are to look again."""

    async def __call__(self, request: Request) -> Reply:
        """The answer of the model that the call is for."""
        model = request.model or model_for(self.model, request.call)
        at = id(model)
        if at in self._open or isinstance(request.call, ProveForm) or not forms_taken(model).any:
            return await self._answer(request, model, at)
        # Until it is known whether the model answers at all, a few calls are made, and then more.
        while self._begun[at] >= FIRST and at not in self._open:
            await self._round_over.wait()
        self._begun[at] += 1
        try:
            return await self._answer(request, model, at)
        finally:
            self._ended[at] += 1
            if self._ended[at] == self._begun[at] or at in self._open:
                self._begun[at] = self._ended[at] = 0
                self._round_over.set()
                self._round_over.clear()

    async def _answer(self, request: Request, model: Model, at: int) -> Reply:
        try:
            reply = await self.layers[at](request)
        except ModelError as error:
            # The failure of a proof may be that of the form, and says nothing of the model.
            proving = isinstance(request.call, ProveForm)
            if not proving:
                self._unserved[at] = self._unserved[at] + 1 if error.reason in UNSERVED else 0
            missing = error.status == MISSING and at not in self._served and not proving
            if error.reason in FINAL or missing or self._unserved[at] >= DEAD:
                self._stop(error)
            elif self.limiters[at].dead:
                limiter = self.limiters[at]
                tries = max(limiter.failed, limiter.unanswered)
                message = f"{error.message} It has said nothing else for {tries} tries."
                self._stop(ModelError(error.reason, message, status=error.status))
            elif await self._fails_at_any(request, error, model):
                message = f"{error.message} {SAME}"
                self._stop(ModelError(error.reason, message, status=error.status))
            raise
        if not reply.kept:
            self._served.add(at)
            self._unserved[at] = 0
            if not isinstance(request.call, ProveForm):
                # A proof is short, so its answer does not show that the model takes long prompts.
                self._alike.pop(at, None)
                self._open.add(at)
        return reply

    async def _fails_at_any(self, request: Request, error: ModelError, model: Model) -> bool:
        """Whether a model that has failed several times in the same words fails at any prompt.

        After `ALIKE` such calls it is asked once for a word, in a prompt that has nothing of a
        document or a question. The failure of a proof counts as a call but leads to no test, as
        the form may be its cause. A model that is asked in batches is not tested, as its answer
        may take a day. The tries of the test are added to the error's attempts.
        """
        at, words = id(model), _VARYING.sub("", error.message)
        testable = not self.limiters[at].stopped and forms_taken(model).any
        if error.reason in UNREAD or error.shared or not testable:
            return False
        before, count = self._alike.get(at, (words, 0))
        self._alike[at] = words, count = words, count + 1 if before == words else 1
        if isinstance(request.call, ProveForm) or (at, words) in self._tested:
            return False
        if before != words:
            self._open.add(at)
        if count < ALIKE:
            return False
        self._tested.add((at, words))
        # During the test, only a few further calls are made.
        self._open.discard(at)
        call = ProveForm("", secrets.token_hex(16))
        bare = Request(call, render(call), "prove/any", call.word, limit=request.limit)
        try:
            reply = await self.layers[at](bare)
        except ModelError as other:
            error.attempts = (*error.attempts, *other.attempts)
            return _VARYING.sub("", other.message) == words
        finally:
            self._open.add(at)
        answered = FailedTry(error.reason, "A word was asked for instead, and came.", reply.usage)
        error.attempts = (*error.attempts, *reply.attempts, answered)
        return False

    def _stop(self, error: ModelError) -> None:
        for limiter in self.limiters.values():
            limiter.stop(error)
