"""Preparing a strategy for a run.

`prepare` checks what the user chose before anything is sent. Every command and the Python interface
call it, and nothing checks the choice again. `Prepared.start` then sets the strategy up for one
question about one document.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from pearl.lang.ast import RETRIEVE, Decomposed, Parsed, Solver, SubPlan
from pearl.lang.errors import InputError
from pearl.lang.library import Library, load_library
from pearl.lang.text import counted
from pearl.lint.checker import check_errors, with_taken_fixes
from pearl.models.base import OFFLINE
from pearl.prompts.calls import Demonstration
from pearl.runtime.calls import Caller
from pearl.runtime.loop import RunError, Strategy
from pearl.strategies.pearl import GivenPlan, demonstrations_for, rewritten
from pearl.strategies.registry import (
    DEFAULT_LIMITS,
    DEFAULT_SETTINGS,
    MACHINES,
    STRATEGIES,
    Made,
    OwnStrategy,
    Prepared,
    RunInputs,
    StrategySettings,
    StrategySpec,
    find_strategy,
)

NEEDS_MODEL = (
    "needs a language model: set OPENAI_API_KEY or OPENAI_BASE_URL, and --model NAME, or use "
    "--model local."
)
"""The message, after a strategy's name, where only the offline reader is there to write steps."""


def prepare(
    name: str | OwnStrategy,
    model: str,
    library: Library | None = None,
    demonstrations: Sequence[Demonstration] | str | Path | None = None,
    settings: StrategySettings = DEFAULT_SETTINGS,
    tools: object = "",
) -> Prepared:
    """Prepare a strategy by its name.

    Args:
        name: the strategy's name, or the user's own strategy.
        model: the name of the model that plans.
        library: the chosen actions; None for the strategy's own, or those Pearl ships.
        demonstrations: plans to show, or the folder they are in; None or an empty name for those
            Pearl ships for the strategy that the library can run.
        settings: what else was chosen.
        tools: the tools that may be called; empty where none were chosen.

    Raises:
        InputError: there is no such strategy, it would ignore an argument, it needs a language
            model where there is none, or a library or a folder cannot be used.
    """
    spec = find_strategy(name)
    name = spec.name
    if library and not spec.takes_library:
        raise InputError(f"{name} has actions of its own: leave the library out.")
    if demonstrations and not spec.demonstrations:
        raise InputError(f"{name} is shown no plans: leave the demonstrations out.")
    if settings.shown and name != "pearl":
        raise InputError(f"{name} writes no whole plan: leave out the option shown.")
    if settings.turns and name not in MACHINES:
        raise InputError(f"{name} has no states: take fsm1 or fsm2, or leave out the option turns.")
    if tools and "tools" not in spec.uses:
        raise InputError(f"{name} asks no tools: take the strategy rebel.")
    if spec.needs_model and model == OFFLINE:
        raise InputError(f"{name} {NEEDS_MODEL}")
    library = library or load_library(*spec.libraries)
    decomposes = name == "decomp"
    if spec.takes_library and (lacking := lacking_solver(library, decomposes=decomposes)):
        raise InputError(lacking)
    folder = spec.demonstrations
    shown = demonstrations_for(library, demonstrations, folder) if folder else ()
    asks_tools = False
    if tools:
        # Only here, as most questions load no tools.
        from pearl.tools.declared import NO_TOOLS

        asks_tools = tools != NO_TOOLS
    return Prepared(spec, library, shown, settings, asks_tools)


def refuse_unused(prepared: Prepared, examples: int) -> None:
    """Refuse a depth or worked examples that the strategy would ignore. The user's own strategy
    may use either.

    Args:
        prepared: the strategy.
        examples: the most worked examples of structured output; 0 where none were chosen.

    Raises:
        InputError: the strategy would ignore one of them.
    """
    spec, depth = prepared.spec, prepared.settings.limits.depth
    if spec not in STRATEGIES:
        return
    if examples and "examples" not in spec.options:
        raise InputError(
            f"{spec.name} asks for no structured output: leave out the option examples."
        )
    nested = "depth" in spec.options or has_subplans(prepared.library)
    if depth != DEFAULT_LIMITS.depth and not nested:
        raise InputError(
            f"{spec.name} nests nothing: take decomp or rebel, or leave out the option depth."
        )


def has_subplans(*libraries: Library) -> bool:
    """Whether some action of these libraries is carried out by a plan, so that calls may nest."""
    actions = (action for library in libraries for action in library.actions.values())
    return any(isinstance(action.body, SubPlan) for action in actions)


def lacking_solver(library: Library, *, decomposes: bool = False) -> str:
    """A message about the first action that a run cannot carry out; empty where it can do all.

    A run has a retriever, and the strategy decomp (``decomposes``) has a decomposer as well.
    """
    for action in library.actions.values():
        if isinstance(action.body, Decomposed) and not decomposes:
            return f"{action.name} needs a decomposer: take the strategy decomp."
        if isinstance(action.body, Solver) and action.body.name != RETRIEVE:
            return f"{action.name} needs the solver {action.body.name}; there is {RETRIEVE}."
    return ""


def prepare_plan(plan: Parsed, library: Library, passes: tuple[str, ...] = ()) -> Prepared:
    """Prepare a given plan, which the passes of these names rewrite before it runs.

    Raises:
        RunError: the plan has errors, or calls an action that a run cannot carry out.
    """
    if errors := check_errors(plan, library):
        raise RunError(
            f"The plan has {counted(len(errors), 'error')}: {errors[0].message} "
            f"{errors[0].help}".rstrip(),
            diagnostics=tuple(with_taken_fixes(errors, plan.plan.source, library)),
        )
    if lacking := lacking_solver(library.called_by(plan.plan)):
        raise RunError(lacking)

    # An error that a noqa comment silenced still counts when the plan runs, so the plan is checked
    # again there.
    silences = "noqa" in plan.plan.source.text.lower()

    def make(caller: Caller) -> Strategy:
        ready = rewritten(plan.plan, library, passes, caller.journal)
        return GivenPlan(ready, checked=ready is plan.plan and not silences)

    return prepare_own(make, library)


def prepare_own(make: Callable[[Caller], Strategy], library: Library) -> Prepared:
    """Prepare a strategy without a name, which ``make`` creates for a caller, and whose actions
    need at most a model and a retriever."""

    def set_up(prepared: Prepared, inputs: RunInputs) -> Made:
        return make(inputs.caller), prepared.retrieving(inputs)

    spec = StrategySpec("", "", set_up, needs_model=False, calls=lambda _: sys.maxsize)
    return Prepared(spec, library)
