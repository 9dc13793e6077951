"""DSPy over litellm, by which it called every endpoint before 3.4."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import dspy

from benchmarks.peers.common import KEY, MODEL, Run, run_peer
from benchmarks.peers.with_dspy import over_lm


@asynccontextmanager
async def with_dspy_litellm(url: str) -> AsyncIterator[Run]:
    engine: dict[str, Any] = {"engine": "litellm"} if _has_engines() else {}
    yield over_lm(dspy.LM(f"openai/{MODEL}", api_base=url, api_key=KEY, cache=False, **engine))


def _has_engines() -> bool:
    """Whether this DSPy can choose; an older one has litellm alone."""
    return tuple(int(part) for part in dspy.__version__.split(".")[:2]) >= (3, 4)


if __name__ == "__main__":
    run_peer(with_dspy_litellm)
