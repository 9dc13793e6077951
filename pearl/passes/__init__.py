"""Rewrites of plans. A new one is a file in this folder and a line in `PASSES`."""

from collections.abc import Sequence
from functools import cache

from pearl.lang.ast import Plan
from pearl.lang.diagnostics import Safety
from pearl.lang.errors import InputError
from pearl.lang.library import Library
from pearl.passes import drop_unreachable, fold_concat, hoist_literals, share_calls
from pearl.passes.base import Applied, Pass

# What is taken out first need not be looked at by the others.
PASSES: tuple[Pass, ...] = (
    drop_unreachable.PASS,
    hoist_literals.PASS,
    fold_concat.INSIDE,
    fold_concat.AT_END,
    share_calls.CALLS,
    share_calls.SAMPLES,
)

DEFAULT_PASSES: tuple[str, ...] = tuple(each.name for each in PASSES if each.safety is Safety.SAFE)
"""The passes that can never change an answer: what `rewrite` does unless told."""

# One pass makes room for another; a plan needs two or three rounds.
_ROUNDS = 20


def rewrite(plan: Plan, library: Library, names: Sequence[str | Pass] = DEFAULT_PASSES) -> Applied:
    """Apply passes, in the order given, until none of them finds anything more.

    Args:
        plan: a whole plan without errors; it is not changed.
        library: the actions it was checked against, without its own.
        names: passes by name, or passes.

    Returns:
        The plan after them, and what each rewrite did; one that is not `sound` stays as it is.

    Raises:
        InputError: there is no pass of a name.
    """
    chosen = [name if isinstance(name, Pass) else find_pass(name) for name in names]
    notes: list[str] = []
    for _ in range(_ROUNDS):
        before = len(notes)
        for each in chosen:
            applied = each.apply(plan, library)
            plan = applied.plan
            notes += applied.notes
        if len(notes) == before:
            break
    return Applied(plan, tuple(notes))


@cache
def find_pass(name: str) -> Pass:
    """The pass of this name.

    Raises:
        InputError: there is none.
    """
    passes = {each.name: each for each in PASSES}
    if name not in passes:
        raise InputError(f"no pass is named {name}: use {', '.join(passes)}.")
    return passes[name]


def chosen_passes(names: Sequence[str]) -> tuple[str, ...]:
    """The passes that a person means, in the order of `PASSES`.

    Args:
        names: passes beside the default ones; ``none`` means none at all.

    Raises:
        InputError: there is no pass of a name.
    """
    if "none" in names:
        return ()
    chosen = {find_pass(name).name for name in names} | set(DEFAULT_PASSES)
    return tuple(each.name for each in PASSES if each.name in chosen)
