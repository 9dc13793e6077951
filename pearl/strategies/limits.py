"""How far a strategy may go for one question."""

from __future__ import annotations

from dataclasses import dataclass

from pearl.runtime.calls import CALLS
from pearl.runtime.handlers import DEPTH, WIDTH
from pearl.strategies.decomp import STEPS


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a question ends whose steps are written one at a time.

    Args:
        steps: of one decomposition, at most.
        depth: decompositions within each other, at most.
        calls: of the model, at most.
        width: items that one step runs over, at most.
    """

    steps: int = STEPS
    depth: int = DEPTH
    calls: int = CALLS
    width: int = WIDTH


USUAL = Limits()
"""Where nobody said."""
