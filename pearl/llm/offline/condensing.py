"""Fewer actions of many, by how alike they are."""

from __future__ import annotations

from dataclasses import replace

from pearl.alike import arguments, clearest, group, widened
from pearl.llm.calls import CondenseActions
from pearl.plan import Action, Ref, Replaced
from pearl.syntax.printer import print_library

FLOOR = 0.55
"""More than for a whole library: what is rare in one prompt may not be rare elsewhere."""


def condense(call: CondenseActions) -> str:
    """The actions that stay, each with what it replaces, in the form a library has."""
    found: list[Action] = []
    for places in group(call.actions, call.target, FLOOR):
        members = [call.actions[at] for at in places]
        kept = members.pop(clearest(members))
        told = [one for member in members if (one := _replaced(member, kept))]
        gone = {one.name for one in told}
        covered = [member for member in members if member.name in gone]
        found.append(
            replace(
                kept,
                doc=widened(kept, covered),
                replaces=tuple(told),
                aliases=(),
                provenance=(),
                comments=(),
            )
        )
        found += [replace(one, comments=()) for one in members if one.name not in gone]
    return print_library(found)


def _replaced(old: Action, new: Action) -> Replaced | None:
    args = arguments(old, new)
    params = tuple(param.name for param in old.params)
    # Of two actions of one name, the definition says what both find.
    same = old.name == new.name and args == tuple(map(Ref, params))
    return None if args is None or same else Replaced(old.name, params, args)
