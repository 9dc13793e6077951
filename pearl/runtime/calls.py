"""The one way from a call to a model's reply: rendered, keyed, asked, taken down."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from pearl.llm import Ask, Attempt, Call, ExecuteStep, FillSchema, ModelError, Reply, Request
from pearl.llm.model import call_key
from pearl.prompts import render, stable_part
from pearl.runtime.journal import Entry, Journal

CALLS = 500
"""Calls of one question, at most, where its steps are written one at a time."""


@dataclass(frozen=True)
class Caller:
    """Asks a model and keeps the journal.

    Args:
        ask: who answers: a model's ``answer``, bare or in the engine's layers.
        identity: everything about the model that decides its answers.
        journal: where it is written.
        watch: told the path of each call when it starts and when it ends.
    """

    ask: Ask
    identity: str
    journal: Journal
    watch: Callable[[str, bool], None] | None = None

    async def __call__(self, call: Call, path: str, sample: int = 0) -> Reply:
        """Ask. The reply is in the journal before it is returned.

        Args:
            call: what is asked.
            path: where in the run it stands.
            sample: which of several answers to the same prompt is wanted.

        Raises:
            ModelError: no usable answer; that is in the journal too.
        """
        request = self._request(call, path, sample)
        began, started = time.time(), time.monotonic()
        if self.watch:
            self.watch(path, False)
        try:
            reply = await self.ask(request)
        except ModelError as error:
            self._failed(request, error, began, time.monotonic() - started)
            raise
        finally:
            if self.watch:
                self.watch(path, True)
        self._tried(request, reply.attempts)
        spent = round(time.monotonic() - started, 3)
        self.journal.record(
            Entry(
                "call", path, reply.text, request.key, len(reply.attempts) + 1,
                usage=reply.usage, seconds=spent, kept=reply.kept, started=began,
            )
        )  # fmt: skip
        await self.journal.flush()
        return reply

    def _request(self, call: Call, path: str, sample: int) -> Request:
        messages = render(call)
        document = call.document if isinstance(call, ExecuteStep | FillSchema) else None
        stable = stable_part(document) if document else 0
        key = call_key(self.identity, messages, sample, stable)
        return Request(call, messages, path, key, stable, document.digest if document else "")

    def _tried(self, request: Request, attempts: tuple[Attempt, ...]) -> None:
        for number, tried in enumerate(attempts, 1):
            self._fail(request, number, tried)

    def _failed(self, request: Request, error: ModelError, began: float, seconds: float) -> None:
        only = Attempt(error.reason, str(error), error.usage, seconds, began)
        self._tried(request, error.attempts or (only,))

    def _fail(self, request: Request, number: int, tried: Attempt) -> None:
        self.journal.record(
            Entry(
                "call", request.path, None, request.key, number, "failed",
                f"{tried.reason}: {tried.cause}", tried.usage, round(tried.seconds, 3),
                started=tried.started,
            )
        )  # fmt: skip


def at_most(caller: Caller, calls: int = CALLS) -> Caller:
    """A caller that refuses to ask more often.

    A kept reply counts as any other: what a run comes to does not hang on what
    was asked before it.

    Args:
        caller: who asks.
        calls: how often.
    """
    asked = 0

    async def ask(request: Request) -> Reply:
        nonlocal asked
        if asked == calls:
            raise ModelError("calls", f"The question has taken its {calls} calls: allow more.")
        asked += 1
        return await caller.ask(request)

    return replace(caller, ask=ask)
