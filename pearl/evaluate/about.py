"""What the methods of an evaluation are given, as the head of its report tells it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields

from pearl.evaluate.methods import Kit
from pearl.evaluate.methods.base import EXECUTE, LIBRARY, STEPWISE, UNREFINED, Limits
from pearl.evaluate.methods.pearl import EXECUTE_ONLY, NO_REFINEMENT
from pearl.library import Library
from pearl.retrieval import CorpusRetriever
from pearl.strategies.registry import STRATEGIES

_OWN = frozenset(
    ("retrieve-read", "normal", "normal-evidence", "cot-answer", "cot-evidence", "sp-cot", "tmn")
)
"""Methods with actions of their own, which are shown no plans, beside such strategies."""


def planning_of(method: str, kit: Kit) -> str:
    """The name of the planning that a method works with; empty for one with actions of its own.

    A size that a method names is told by that name, and its planning is the library's.

    Args:
        method: its name.
        kit: what methods share.
    """
    named = next((one for one in STRATEGIES if one.name == method and one.libraries), None)
    if method in _OWN or (named and not named.demonstrations):
        return ""
    if named or method == "cot-rolled-out":
        return STEPWISE if STEPWISE in kit.plannings else LIBRARY
    return {NO_REFINEMENT.name: UNREFINED, EXECUTE_ONLY.name: EXECUTE}.get(method, LIBRARY)


def plannings_of(methods: Sequence[str], kit: Kit) -> dict[str, list[str]]:
    """The plannings that methods work with, each with the names of those methods.

    Args:
        methods: their names, in order.
        kit: what they share.
    """
    found: dict[str, list[str]] = {}
    for method in methods:
        if name := planning_of(method, kit):
            found.setdefault(name, []).append(method)
    return dict(sorted(found.items(), key=lambda one: one[0] != LIBRARY))


def told_plannings(methods: Sequence[str], kit: Kit) -> Iterator[list[str]]:
    """Rows of a report's head: the library and the demonstrations of each planning in use.

    Args:
        methods: names of the methods.
        kit: what they share.
    """
    found = plannings_of(methods, kit)
    for name, users in found.items():
        of = "" if name == LIBRARY or len(found) == 1 else f" of {', '.join(users)}"
        given = kit.plannings[name]
        names, own = ", ".join(given.library.names), own_actions(given.library)
        yield [f"library{of}", f"{names}, {own:,} action{'s'[: own != 1]}"]
        yield [f"demonstrations{of}", f"{len(given.demonstrations):,}"]


def told_settings(methods: Sequence[str], kit: Kit) -> Iterator[list[str]]:
    """Rows of a report's head: what was set for this run beside a library.

    Args:
        methods: names of the methods.
        kit: what they share.
    """
    if kit.search is not None and any(one.startswith("tmn") for one in methods):
        if kit.search.learned:
            yield ["learned", kit.search.learned]
        budget = kit.search.budget
        yield [
            "search",
            f"{kit.search.way}, {budget.width:,} wide, {budget.depth:,} deep, "
            f"{budget.calls:,} calls at most",
        ]
    if isinstance(kit.retriever, CorpusRetriever):
        yield ["index", kit.retriever.info.corpus]
    if kit.tools is not None:
        yield ["tools", kit.tools.path]
    usual = Limits()
    if kit.limits != usual:
        changed = (
            f"{one.name} {getattr(kit.limits, one.name):,}"
            for one in fields(Limits)
            if getattr(kit.limits, one.name) != getattr(usual, one.name)
        )
        yield ["limits", ", ".join(changed)]


def own_actions(library: Library) -> int:
    """How many actions a library has beside the builtins."""
    return sum(not one.is_builtin for one in library.actions.values())
