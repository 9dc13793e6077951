"""REBEL (Sodani et al., 2023): questions within questions, and tools."""

from __future__ import annotations

from pearl.evaluate.datasets import Example
from pearl.evaluate.methods.base import Kit, Method, Outcome
from pearl.library import load_library
from pearl.retrieval import DocumentRetriever
from pearl.runtime import Caller, run_strategy
from pearl.session import Session
from pearl.strategies.rebel import LIBRARY, rebel
from pearl.strategies.rebel.limits import RebelLimits
from pearl.strategies.rebel.tools import KeptTools, Tools, searching_tools
from pearl.syntax import print_plan


async def answer(example: Example, kit: Kit, session: Session) -> Outcome:
    """Split the question, and answer its parts by tools.

    Without tools of one's own there is one, which searches the question's
    document, or the index that was named.

    Raises:
        ModelError: the model gave no usable answer.
        RunError: there is no answer.
    """
    if kit.tools is None:
        passages = kit.retriever or DocumentRetriever(example.document)
        return await _answered(example, kit, session, searching_tools(passages))
    async with kit.tools.opened() as toolbox:
        return await _answered(example, kit, session, _kept(toolbox, example, session))


async def _answered(example: Example, kit: Kit, session: Session, tools: Tools) -> Outcome:
    caller = Caller(session.engine.ask, session.engine.identity, session.journal)
    usual = RebelLimits()
    limits = RebelLimits(
        depth=min(usual.depth, kit.limits.depth), calls=min(usual.calls, kit.limits.calls)
    )
    strategy = rebel(caller, tools, kit.embed, limits)
    finished = await run_strategy(
        strategy,
        example.question,
        example.document,
        load_library(LIBRARY),
        caller,
        session.context,
        strategy.handlers,
    )
    spent = strategy.spent
    took = {"tool_calls": float(spent.tool_calls), "depth": float(spent.deepest)}
    return Outcome(finished.text, finished.text, print_plan(finished.plan), measures=took)


def _kept(tools: Tools, example: Example, session: Session) -> Tools:
    """The tools, so that a run that goes on asks them nothing again."""
    keeper, run = session.engine.keeper, session.journal.name
    if keeper is None or not run:
        return tools
    return KeptTools(tools, keeper, run, f"{example.id} {example.question}")


METHOD = Method(
    "rebel", "Questions are split until a tool, or what is known, answers each part.", answer
)
