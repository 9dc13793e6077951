"""The one way from a call to a model's reply: rendered, keyed, asked, taken down."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pearl.llm import Call, Model, ModelError, Reply, Request
from pearl.llm.model import call_key
from pearl.prompts import render
from pearl.runtime.journal import Entry, Journal


@dataclass(frozen=True)
class Caller:
    """Asks a model and keeps the journal.

    Args:
        model: who answers.
        journal: where it is written.
        watch: told the path of each call when it starts and when it ends.
    """

    model: Model
    journal: Journal
    watch: Callable[[str, bool], None] | None = None

    async def __call__(self, call: Call, path: str) -> Reply:
        """Ask. The reply is in the journal before it is returned.

        Raises:
            ModelError: no usable answer; that is in the journal too.
        """
        messages = render(call)
        key = call_key(self.model.identity, messages)
        started = time.monotonic()
        if self.watch:
            self.watch(path, False)
        try:
            reply = await self.model.answer(Request(call, messages, path, key))
        except ModelError as error:
            spent = round(time.monotonic() - started, 3)
            cause = f"{error.reason}: {error}"
            self.journal.record(
                Entry("call", path, None, key, status="failed", cause=cause, seconds=spent)
            )
            raise
        spent = round(time.monotonic() - started, 3)
        self.journal.record(Entry("call", path, reply.text, key, usage=reply.usage, seconds=spent))
        if self.watch:
            self.watch(path, True)
        return reply
