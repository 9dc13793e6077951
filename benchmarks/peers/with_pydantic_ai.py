"""pydantic-ai: one `Agent` on its OpenAI provider, run once for each call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from benchmarks.peers.common import KEY, MODEL, Run, run_peer
from benchmarks.workload import Plan, documents, prompt, run_plan, run_plans


@asynccontextmanager
async def with_pydantic_ai(url: str) -> AsyncIterator[Run]:
    texts = documents()
    provider = OpenAIProvider(base_url=url, api_key=KEY)
    agent = Agent(OpenAIChatModel(MODEL, provider=provider))

    async def ask(document: str, instruction: str) -> str:
        return (await agent.run(prompt(document, instruction))).output

    async def run(work: list[Plan], at_once: int) -> list[str]:
        return await run_plans(lambda plan: run_plan(ask, texts, plan), work, at_once)

    async with agent:
        yield run


if __name__ == "__main__":
    run_peer(with_pydantic_ai)
