"""PEARL, its ablations, and PEARL with libraries of several sizes (PEARL, sections 2 and 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pearl.answer import Session
from pearl.evaluate.context import LIBRARY, EvaluationContext, own_actions
from pearl.evaluate.datasets.base import Example
from pearl.evaluate.methods.base import Method, Outcome, mapped, prepared
from pearl.lang.library import Library
from pearl.strategies.baselines import PlanShown
from pearl.strategies.registry import prepare_own

NO_REFINEMENT = "pearl-no-refinement"
"""The name of the ablation that needs demonstrations as they were before refinement."""

_SIZED = "pearl@"


async def planned(
    setup: str, example: Example, shared: EvaluationContext, session: Session
) -> Outcome:
    """Plan with a setup, execute, map."""
    return await mapped(prepared("pearl", setup, shared, session), example, session)


async def plan_shown(example: Example, shared: EvaluationContext, session: Session) -> Outcome:
    """Plan, show the plan with the question in place of executing it, map."""
    setup = shared.setups[LIBRARY]
    ready = prepare_own(
        lambda caller: PlanShown(
            setup.library, caller, setup.demonstrations, shared.shown, session.planning
        ),
        setup.library,
    )
    outcome = await mapped(ready, example, session)
    plans = [entry.value for entry in session.journal.entries if entry.path == "plan/shown"]
    return replace(outcome, plan="".join(plans), fallback=not plans)


def with_size(size: int) -> Method:
    """PEARL with a library that was condensed to so many actions."""
    name, about, setup = f"{_SIZED}{size}", f"PEARL with {size:,} actions.", f"@{size}"
    return Method(name, about, partial(planned, setup), setup, prose=True)


def size_of(name: str) -> int:
    """The size that a method's name has, as ``pearl@20``; 0 for none."""
    number = name.removeprefix(_SIZED)
    return int(number) if name != number and number.isdecimal() else 0


def with_sizes(
    methods: Sequence[str], sizes: Sequence[int], library: Library
) -> tuple[tuple[str, ...], tuple[int, ...], tuple[str, ...]]:
    """The methods and the sizes of an evaluation.

    A size that the library does not have is taken as the library's own, since
    a report that says 140 is to mean 140.

    Args:
        methods: names, as a person gave them.
        sizes: more numbers of actions.
        library: what is condensed.

    Returns:
        Names, each once, ``pearl@N`` among them for each size; numbers of actions beside the
        builtins, each once; what was changed, in whole sentences.
    """
    most = own_actions(library)
    names: dict[str, str] = {}
    for name in (*methods, *(f"{_SIZED}{size}" for size in sizes)):
        size = size_of(name)
        names[name] = f"{_SIZED}{min(size, most)}" if size else name
    notes = tuple(
        f"The library has {most:,} actions beside the builtins, so {name} is {new}."
        for name, new in names.items()
        if name != new
    )
    unique = tuple(dict.fromkeys(names.values()))
    return unique, tuple(size for name in unique if (size := size_of(name))), notes
