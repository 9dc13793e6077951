"""PEARL and its ablations (PEARL, sections 2 and 4)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pearl.evaluate.datasets.base import Example
from pearl.evaluate.methods.base import (
    EXECUTE,
    LIBRARY,
    UNREFINED,
    Kit,
    Method,
    Outcome,
    by_strategy,
    prepared_by,
)
from pearl.session import Session
from pearl.strategies.baselines import PlanShown
from pearl.strategies.registry import prepare_own


async def answer(example: Example, kit: Kit, session: Session, planning: str) -> Outcome:
    """Plan, execute, map.

    Args:
        example: the question.
        kit: what methods share.
        session: the model in its layers.
        planning: the name of what the plan is written with.

    Raises:
        ModelError: the model gave no usable answer.
        RunError: a step has no output, or no option was named.
    """
    prepared = prepared_by("pearl", kit.plannings[planning], kit, session)
    return await by_strategy(prepared, example, session)


async def answer_with_plan_shown(example: Example, kit: Kit, session: Session) -> Outcome:
    """Plan, show the plan with the question, map.

    Raises:
        ModelError: the model gave no usable answer.
        RunError: the step has no output, or no option was named.
    """
    given = kit.plannings[LIBRARY]
    prepared = prepare_own(
        lambda caller: PlanShown(given.library, caller, given.demonstrations), given.library
    )
    found = await by_strategy(prepared, example, session)
    shown = [one.value for one in session.journal.entries if one.path == "plan/shown"]
    return replace(found, plan="".join(shown), fallback=not shown)


def with_size(size: int) -> Method:
    """PEARL with a library that was condensed to so many actions."""
    about = f"PEARL with {size:,} actions."
    return Method(f"pearl@{size}", about, partial(answer, planning=f"@{size}"), prose=True)


PEARL = Method(
    "pearl",
    "A plan is written, checked and executed.",
    partial(answer, planning=LIBRARY),
    prose=True,
)
NO_REFINEMENT = Method(
    "pearl-no-refinement",
    "PEARL with its demonstrations as they were before refinement.",
    partial(answer, planning=UNREFINED),
    prose=True,
)
EXECUTE_ONLY = Method(
    "pearl-execute-only",
    "PEARL with no actions but EXECUTE and CONCAT.",
    partial(answer, planning=EXECUTE),
    prose=True,
)
NO_EXECUTION = Method(
    "pearl-no-execution",
    "The plan is shown with the question, and not executed.",
    answer_with_plan_shown,
    prose=True,
)
