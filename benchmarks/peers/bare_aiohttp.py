"""Bare aiohttp: no library between the plan and the socket, so no retries and no checks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from benchmarks.peers.common import KEY, MODEL, Run, run_peer
from benchmarks.workload import Plan, documents, prompt, run_plan, run_plans


@asynccontextmanager
async def bare_aiohttp(url: str) -> AsyncIterator[Run]:
    texts = documents()
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as session:

        async def ask(document: str, instruction: str) -> str:
            message = {"role": "user", "content": prompt(document, instruction)}
            body = {"model": MODEL, "messages": [message]}
            async with session.post(f"{url}/chat/completions", json=body) as answer:
                answer.raise_for_status()
                sent = await answer.json()
            text: str = sent["choices"][0]["message"]["content"]
            return text

        async def run(work: list[Plan], at_once: int) -> list[str]:
            return await run_plans(lambda plan: run_plan(ask, texts, plan), work, at_once)

        yield run


if __name__ == "__main__":
    run_peer(bare_aiohttp)
