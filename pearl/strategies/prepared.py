"""A strategy with all that a run of it needs."""

from __future__ import annotations

from dataclasses import dataclass

from pearl.library import Library
from pearl.runtime import Strategy
from pearl.runtime.handlers import NONE, Handlers


@dataclass(frozen=True, slots=True)
class Prepared:
    """A strategy for one run, and what the run is started with.

    Args:
        strategy: writes the steps.
        library: the actions they call.
        handlers: who carries out those that are neither the model's nor builtins.
    """

    strategy: Strategy
    library: Library
    handlers: Handlers = NONE
