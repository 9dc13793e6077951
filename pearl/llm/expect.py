"""How many tokens a call may take, before it is made.

Counting a whole prompt costs as much again as the call, so the part that all
steps on a document share is counted once and the rest is bounded by its
length.
"""

from __future__ import annotations

from functools import lru_cache

from pearl.llm.calls import WritePlan
from pearl.llm.model import Request, Usage
from pearl.llm.tokens import count_tokens

BYTES_A_TOKEN = 1.4
"""Fewer than a table of numbers has (1.6; prose has 4), so that a length bounds a count."""

REPLY = 1000
"""Tokens that a reply may have where no limit is set: longer ones are rare."""

OVERHEAD = 16
"""Tokens by which an endpoint wraps messages."""


def upper(request: Request, model: str, reply: int = REPLY) -> Usage:
    """At least as many tokens as the call takes, but for a reply of unusual length.

    Args:
        request: the call.
        model: whose vocabulary to count with.
        reply: tokens that the reply may have.
    """
    tokens = OVERHEAD
    for message in request.messages[:-1]:
        tokens += _counted(message["content"], model)
    last = request.messages[-1]["content"]
    shared = _shared(request)
    if shared:
        tokens += _counted(last[:shared], model)
    rest = last[shared:]
    tokens += int(len(rest.encode("utf-8", "replace")) / BYTES_A_TOKEN) + 1
    return Usage(tokens, reply)


def _shared(request: Request) -> int:
    if request.stable:
        return request.stable
    if isinstance(request.call, WritePlan):
        # Everything before the question is the same for every question.
        return request.messages[-1]["content"].rfind(request.call.question)
    return 0


@lru_cache(maxsize=64)
def _counted(text: str, model: str) -> int:
    return count_tokens(text, model)
