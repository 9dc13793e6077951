"""REBEL (Sodani et al., 2023): questions within questions, and tools."""

from __future__ import annotations

from pearl.answer import kept
from pearl.evaluate.datasets.base import NO_DOCUMENT, Example
from pearl.evaluate.methods.base import Kit, Method, Outcome, by_name
from pearl.session import Session
from pearl.strategies.rebel import Rebel
from pearl.tools.toolbox import Tools


async def answer(example: Example, kit: Kit, session: Session) -> Outcome:
    """Split the question, and answer its parts by tools.

    Without tools of one's own there is one, which searches the question's
    document, or the index that was named.

    Raises:
        ModelError: the model gave no usable answer.
        RunError: there is no answer.
    """
    if kit.tools is None:
        return await _answered(example, kit, session)
    async with kit.tools.opened() as toolbox:
        tools = kept(toolbox, session, f"{example.id} {example.question}")
        return await _answered(example, kit, session, tools)


async def _answered(
    example: Example, kit: Kit, session: Session, tools: Tools | None = None
) -> Outcome:
    ran = await by_name("rebel", example, kit, session, tools)
    assert isinstance(ran.strategy, Rebel)
    spent = ran.strategy.spent
    return ran.outcome({"tool_calls": float(spent.tool_calls), "depth": float(spent.deepest)})


def _lacks(kit: Kit, example: Example) -> str:
    if kit.tools is None and kit.retriever is None and example.document == NO_DOCUMENT:
        return "has no document to search: name --tools FILE or --index DIR."
    return ""


METHOD = Method(
    "rebel",
    "Questions are split until a tool, or what is known, answers each part.",
    answer,
    lacks=_lacks,
    needs_model=True,
)
