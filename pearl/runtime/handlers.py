"""Who carries out an action that is neither a model's nor a builtin's.

A *solver* is something beside the model: an agent, a retriever, a symbolic
program. A *decomposer* writes the steps of an action while they run. Both are
handed in; the executor knows neither.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

from pearl.builtins import Given
from pearl.context import UNLIMITED, Context
from pearl.library import Library
from pearl.plan import Action
from pearl.runtime.calls import Caller
from pearl.source import Source
from pearl.values import Value, canonical_json, to_json

DEPTH = 8
"""Frames within each other, at most."""

WIDTH = 200
"""Items that one step runs over, at most, where steps are written one at a time."""


class SolverError(Exception):
    """A solver that has no answer.

    Args:
        reason: ``no-answer`` where the question is not one it can answer,
            ``solver`` where it failed.
        message: one sentence for a person.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class WidthError(Exception):
    """A step with ``each`` or ``where`` over more items than it may run over."""


class DepthError(Exception):
    """Frames that would never end: too many within each other, or one within itself."""


Solve: TypeAlias = Callable[[str, Sequence[Given]], Awaitable[Value]]
"""Answers a call, given its path in the run and its arguments. Raises `SolverError`."""

Decompose: TypeAlias = "Callable[[Action, Sequence[tuple[str, Given]], Frame], Awaitable[Value]]"
"""Carries out an action by writing its steps, in a frame of its own. Raises `SolverError`."""


@dataclass(frozen=True)
class Handlers:
    """What is handed in.

    Args:
        solvers: by the name that an action's ``body: solver`` gives.
        decompose: what writes an action's steps; None where nothing does.
        depth: frames within each other, at most.
        width: items that one step runs over, at most; None for any number.
    """

    solvers: Mapping[str, Solve] = field(default_factory=lambda: MappingProxyType({}))
    decompose: Decompose | None = None
    depth: int = DEPTH
    width: int | None = None


NONE = Handlers()
"""Nothing is handed in."""


@dataclass(frozen=True)
class Frame:
    """Where in a run the steps of an action run.

    Args:
        document: what ``CTX`` is.
        library: the actions.
        caller: asks the model; its journal's paths are below the frame's.
        context: the model's window.
        handlers: what is handed in.
        within: what the frames around it were called with, the outermost first.
    """

    document: Source
    library: Library
    caller: Caller
    context: Context = UNLIMITED
    handlers: Handlers = NONE
    within: tuple[str, ...] = ()

    def enter(self, action: Action, given: Sequence[tuple[str, Given]], path: str) -> Frame:
        """The frame of a call.

        Raises:
            DepthError: there are too many frames, or the call is that of a
                frame around it, which would never end.
        """
        called = canonical_json([action.name, [to_json(one.value) for _, one in given]])
        if called in self.within:
            raise DepthError(f"{action.name} is asked what it is already at: it would never end.")
        if len(self.within) >= self.handlers.depth:
            raise DepthError(f"{action.name} is more than {self.handlers.depth} calls deep.")
        caller = replace(self.caller, journal=self.caller.journal.under(path))
        return replace(self, caller=caller, within=(*self.within, called))
