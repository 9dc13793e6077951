"""Example plans for the planner's prompt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pearl import resources
from pearl.checker import check
from pearl.diagnostics import has_errors
from pearl.library import Library
from pearl.llm import Demonstration
from pearl.plan import Plan
from pearl.source import Source
from pearl.syntax import parse, print_plan

BUDGET = 6000
"""Characters that demonstrations may take in a prompt."""


def load_demonstrations() -> tuple[Source, ...]:
    """The demonstration plans that ship with Pearl."""
    return tuple(
        Source(file.name, file.read_text(encoding="utf-8")) for file in resources.demonstrations()
    )


def choose_demonstrations(
    sources: Iterable[Source], library: Library, budget: int = BUDGET
) -> tuple[Demonstration, ...]:
    """The demonstrations that a library can run, up to a budget.

    A plan that the checker rejects with this library would teach the model
    actions it does not have.

    Args:
        sources: plans with their question in the head.
        library: the actions the new plan may call.
        budget: characters in all.
    """
    chosen: list[Demonstration] = []
    for source in sources:
        parsed = parse(source)
        if not parsed.plan.question or has_errors(check(parsed, library)):
            continue
        shown = print_plan(_without_question(parsed.plan)).strip()
        budget -= len(shown) + len(parsed.plan.question)
        if budget < 0:
            break
        chosen.append(Demonstration(parsed.plan.question, shown))
    return tuple(chosen)


def _without_question(plan: Plan) -> Plan:
    return replace(plan, question="", comments=())
