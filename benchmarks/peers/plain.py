"""The plainest asyncio loop over `AsyncOpenAI`, with its default transport."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import openai

from benchmarks.peers.common import KEY, MODEL, Run, run_peer
from benchmarks.workload import Plan, documents, prompt, run_plan, run_plans


@asynccontextmanager
async def plain(url: str) -> AsyncIterator[Run]:
    async with openai.AsyncOpenAI(base_url=url, api_key=KEY) as client:
        yield over_sdk(client)


def over_sdk(client: openai.AsyncOpenAI) -> Run:
    """Plans run over the SDK, whatever its transport."""
    texts = documents()

    async def ask(document: str, instruction: str) -> str:
        sent = await client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": prompt(document, instruction)}]
        )
        return sent.choices[0].message.content or ""

    async def run(work: list[Plan], at_once: int) -> list[str]:
        return await run_plans(lambda plan: run_plan(ask, texts, plan), work, at_once)

    return run


if __name__ == "__main__":
    run_peer(plain)
