"""Fewer actions of many, by how alike they are."""

from __future__ import annotations

from pearl.llm.calls import CondenseActions
from pearl.syntax.printer import print_library


def condense(call: CondenseActions) -> str:
    """The actions as they are."""
    return print_library(call.actions)
