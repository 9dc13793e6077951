"""The plain loop over `AsyncOpenAI`, with the SDK's own aiohttp transport."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import openai

from benchmarks.peers.common import KEY, Run, run_peer
from benchmarks.peers.plain import over_sdk


@asynccontextmanager
async def plain_aiohttp(url: str) -> AsyncIterator[Run]:
    # The SDK finds aiohttp at the first call only; a missing one is to show at once.
    assert aiohttp.__version__
    transport = openai.DefaultAioHttpClient()
    async with openai.AsyncOpenAI(base_url=url, api_key=KEY, http_client=transport) as client:
        yield over_sdk(client)


if __name__ == "__main__":
    run_peer(plain_aiohttp)
