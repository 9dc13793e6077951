"""Whatever every further call would come to as well ends a run, before it is paid for again."""

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
"""Calls in a row that were not served, each after all its tries, from which on no further one is
made."""

UNSERVED = ("connection", "timeout", "rate")
"""Reasons of errors at which no call was looked at: nothing came back, or too many were sent."""

UNREAD = (*UNSERVED, "server")
"""These, and that of an endpoint's own failure, which need not have looked at the call either."""

MISSING = 404
"""The status of an address, or of a model, that is not there."""

ALIKE = 5
"""Calls in a row that fail in the same words, from which on a model is tested."""

SAME = "Every call comes to the same."

_VARYING = re.compile(r"\S*\d\S*")
"""What differs in an endpoint's words from call to call: sizes, times, names of requests."""


@dataclass(frozen=True)
class CircuitBreaker:
    """Stops everything at an error that every further call would meet again.

    Args:
        model: the model within, or the several.
        layers: those of each model, by its id.
        limiters: likewise.
    """

    model: Model
    layers: Mapping[int, Ask]
    limiters: Mapping[int, ConcurrencyLimiter]
    _given_up: Counter[int] = field(default_factory=Counter, init=False)
    """Calls that were not served, in a row, of each model."""
    _served: set[int] = field(default_factory=set, init=False)
    _open: set[int] = field(default_factory=set, init=False)
    """Models of which any number of calls may be made: they have answered one, or have had a test
    since, or fail in several ways."""
    _alike: dict[int, tuple[str, int]] = field(default_factory=dict, init=False)
    """In which words each model's last calls failed, and how many have since it last answered."""
    _tested: set[tuple[int, str]] = field(default_factory=set, init=False)
    """Models, and words of theirs after which they were tested."""
    _begun: Counter[int] = field(default_factory=Counter, init=False)
    """Calls of each model that is not open, since none was under way last."""
    _ended: Counter[int] = field(default_factory=Counter, init=False)
    """How many of them have ended."""
    _waiting: list[asyncio.Future[None]] = field(default_factory=list, init=False)

    async def __call__(self, request: Request) -> Reply:
        """Answer, by the model that the call is for."""
        model = request.model or model_for(self.model, request.call)
        at = id(model)
        if at in self._open or isinstance(request.call, ProveForm) or not forms_taken(model).any:
            return await self._answer(request, model, at)
        # Until it is known whether the model answers at all, a few calls are made, and then more.
        while self._begun[at] >= FIRST and at not in self._open:
            self._waiting.append(asyncio.get_running_loop().create_future())
            await self._waiting[-1]
        self._begun[at] += 1
        try:
            return await self._answer(request, model, at)
        finally:
            self._ended[at] += 1
            if self._ended[at] == self._begun[at] or at in self._open:
                self._begun[at] = self._ended[at] = 0
                for waiting in self._waiting:
                    if not waiting.done():
                        waiting.set_result(None)
                self._waiting.clear()

    async def _answer(self, request: Request, model: Model, at: int) -> Reply:
        try:
            reply = await self.layers[at](request)
        except ModelError as error:
            # A form that is not there says nothing of the model: the call itself will.
            proving = isinstance(request.call, ProveForm)
            if not proving:
                self._given_up[at] = self._given_up[at] + 1 if error.reason in UNSERVED else 0
            missing = error.status == MISSING and at not in self._served and not proving
            if error.reason in FINAL or missing or self._given_up[at] >= DEAD:
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
            self._given_up[at] = 0
            if not isinstance(request.call, ProveForm):
                # What they take is asked for in fewer tokens than may be refused.
                self._alike.pop(at, None)
                self._open.add(at)
        return reply

    async def _fails_at_any(self, request: Request, error: ModelError, model: Model) -> bool:
        """Whether a model that fails again and again in the same words does so at any prompt.

        After some such calls it is asked for a word, once, as those were but with nothing of
        theirs: what is wrong with a document or a question is not wrong with that. That a form of
        replies is refused counts, and has no test: it may be the form. A model that is asked in
        batches is not tested, as its answer may take a day.

        Args:
            request: the call that failed.
            error: of it; what the test took is added to its attempts.
            model: who was asked.
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
        # Only a few more are made meanwhile.
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
