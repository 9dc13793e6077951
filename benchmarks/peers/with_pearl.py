"""Pearl, with its journal and its cache on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.peers.common import Run, run_peer


@asynccontextmanager
async def with_pearl(url: str) -> AsyncIterator[Run]:
    """Plans run by Pearl's engine, each given as `Plan.text` on its document.

    The warm-up's plans ask other things than those on the clock, so a store
    that both share saves nothing.
    """
    raise NotImplementedError("Pearl's own side of the benchmark is not written yet.")
    yield


if __name__ == "__main__":
    run_peer(with_pearl)
