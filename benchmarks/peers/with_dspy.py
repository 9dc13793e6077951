"""DSPy: a module with one `Predict` for its calls, asynchronous, its caches off.

Since 3.4 DSPy calls endpoints by an engine of its own; before that by litellm,
which it still can: `with_dspy_litellm` measures that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import dspy

from benchmarks.peers.common import KEY, MODEL, Run, run_peer
from benchmarks.workload import Plan, documents, run_plan, run_plans


class Step(dspy.Signature):
    """Carry out one step of a reading plan on a document."""

    document: str = dspy.InputField()
    instruction: str = dspy.InputField()
    answer: str = dspy.OutputField()


class Reading(dspy.Module):
    """One plan: three finds together, two compares together, one join."""

    def __init__(self, texts: list[str]) -> None:
        super().__init__()
        self.step = dspy.Predict(Step)
        self.texts = texts

    async def ask(self, document: str, instruction: str) -> str:
        answer: str = (await self.step.acall(document=document, instruction=instruction)).answer
        return answer

    async def aforward(self, plan: Plan) -> dspy.Prediction:
        return dspy.Prediction(answer=await run_plan(self.ask, self.texts, plan))


@asynccontextmanager
async def with_dspy(url: str) -> AsyncIterator[Run]:
    yield over_lm(dspy.LM(f"openai/{MODEL}", api_base=url, api_key=KEY, cache=False))


def over_lm(model: dspy.LM) -> Run:
    """Plans run over DSPy, whatever engine it calls the endpoint by."""
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    # A history of thousands of long prompts, DSPy's default, would slow it by a fifth.
    dspy.configure(lm=model, disable_history=True)
    reading = Reading(documents())

    async def run_one(plan: Plan) -> str:
        answer: str = (await reading.acall(plan=plan)).answer
        return answer

    async def run(work: list[Plan], at_once: int) -> list[str]:
        return await run_plans(run_one, work, at_once)

    return run


if __name__ == "__main__":
    run_peer(with_dspy)
