"""Example plans for the planner's prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from pearl import resources
from pearl.checker import check
from pearl.diagnostics import has_errors
from pearl.library import Library
from pearl.llm import Demonstration
from pearl.llm.tokens import count_tokens
from pearl.plan import Plan
from pearl.source import InputError, Source, read_source
from pearl.syntax import parse, print_plan

BUDGET = 3000
"""Tokens that demonstrations may take in a prompt."""


def load_demonstrations(folder: str = "", shipped: str = "demos") -> tuple[Source, ...]:
    """Demonstration plans.

    Args:
        folder: one with ``.plan`` files, as ``pearl refine`` fills it, or the
            name of one that ships with Pearl; empty for ``shipped``.
        shipped: a folder in ``plans/``.

    Raises:
        InputError: there is no such folder, or no plan in it.
    """
    if folder and not Path(folder).is_dir() and folder in resources.plan_folders():
        folder, shipped = "", folder
    if not folder:
        return tuple(
            Source(file.name, file.read_text(encoding="utf-8"))
            for file in resources.demonstrations(shipped)
        )
    if not Path(folder).is_dir():
        raise InputError(
            f"{folder} is no folder: name one with demonstrations, make one with pearl refine, or "
            f"name one that ships: {', '.join(resources.plan_folders())}."
        )
    found = tuple(read_source(str(file), "plan") for file in sorted(Path(folder).glob("*.plan")))
    if not found:
        raise InputError(f"{folder} holds no .plan file: make some with pearl refine.")
    return found


def choose_demonstrations(
    sources: Iterable[Source],
    library: Library,
    budget: int = BUDGET,
    count: Callable[[str], int] = count_tokens,
) -> tuple[Demonstration, ...]:
    """The demonstrations that a library can run, as many as fit a budget.

    A plan that the checker rejects with this library would teach the model
    actions it does not have. One that is too long for what is left of the
    budget makes room for the next.

    Args:
        sources: plans with their question in the head.
        library: the actions the new plan may call.
        budget: tokens in all.
        count: tokens of a text.
    """
    fitting: list[Demonstration] = []
    for source in sources:
        parsed = parse(source)
        if not parsed.plan.question or has_errors(check(parsed, library)):
            continue
        shown = print_plan(_without_question(parsed.plan)).strip()
        fitting.append(Demonstration(parsed.plan.question, shown))
    texts = [f"{one.question}\n{one.plan}" for one in fitting]
    # No token is shorter than a byte, and a vocabulary takes a quarter of a second to load.
    if sum(len(text.encode("utf-8", "replace")) for text in texts) <= budget:
        return tuple(fitting)
    chosen: list[Demonstration] = []
    for one, text in zip(fitting, texts, strict=True):
        size = count(text)
        if size <= budget:
            budget -= size
            chosen.append(one)
    return tuple(chosen)


def _without_question(plan: Plan) -> Plan:
    # What the last step gave stands after it, among the plan's own comments.
    told = tuple(one for one in plan.comments if one.startswith("# value "))
    return replace(plan, question="", comments=told)
