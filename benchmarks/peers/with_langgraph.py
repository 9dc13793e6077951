"""LangGraph: a `StateGraph` of six nodes over langchain-openai's `ChatOpenAI`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

from benchmarks.peers.common import KEY, MODEL, Run, run_peer
from benchmarks.workload import (
    COMPARES,
    Plan,
    compare_instruction,
    concat,
    documents,
    find_instruction,
    prompt,
    run_plans,
)

FINDS = ("a", "b", "c")
COMPARED = ("d", "e")


class State(TypedDict, total=False):
    """What the nodes of a plan share."""

    plan: Plan
    document: str
    a: str
    b: str
    c: str
    d: str
    e: str
    answer: str


Node = Callable[[State], Awaitable[State]]


@asynccontextmanager
async def with_langgraph(url: str) -> AsyncIterator[Run]:
    texts = documents()
    graph = _graph(ChatOpenAI(model=MODEL, base_url=url, api_key=KEY))  # type: ignore[arg-type]

    async def run_one(plan: Plan) -> str:
        done = await graph.ainvoke({"plan": plan, "document": texts[plan.document]})
        answer: str = done["answer"]
        return answer

    async def run(work: list[Plan], at_once: int) -> list[str]:
        return await run_plans(run_one, work, at_once)

    yield run


def _graph(model: ChatOpenAI) -> Any:
    graph = StateGraph(State)
    for at, name in enumerate(FINDS):
        graph.add_node(name, _find(model, at, name))
        graph.add_edge(START, name)
    for at, name in enumerate(COMPARED):
        graph.add_node(name, _compare(model, at, name))
        graph.add_edge([FINDS[which] for which in COMPARES[at]], name)
    graph.add_node("concat", _join)
    graph.add_edge([*COMPARED], "concat")
    graph.add_edge("concat", END)
    return graph.compile()


def _find(model: ChatOpenAI, at: int, name: str) -> Node:
    async def node(state: State) -> State:
        asked = prompt(state["document"], find_instruction(state["plan"], at))
        return {name: (await model.ainvoke(asked)).text}  # type: ignore[misc]

    return node


def _compare(model: ChatOpenAI, at: int, name: str) -> Node:
    x, y = (FINDS[which] for which in COMPARES[at])

    async def node(state: State) -> State:
        instruction = compare_instruction(state[x], state[y])  # type: ignore[literal-required]
        asked = prompt(state["document"], instruction)
        return {name: (await model.ainvoke(asked)).text}  # type: ignore[misc]

    return node


async def _join(state: State) -> State:
    return {"answer": concat([state["d"], state["e"]])}


if __name__ == "__main__":
    run_peer(with_langgraph)
