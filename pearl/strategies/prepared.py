"""A strategy with all that a run of it needs."""

from __future__ import annotations

from dataclasses import dataclass

from pearl.context import UNLIMITED, Context
from pearl.library import Library
from pearl.runtime import Caller, Finished, Strategy, run_strategy
from pearl.runtime.handlers import NONE, Handlers
from pearl.source import Source


@dataclass(frozen=True, slots=True)
class Prepared:
    """A strategy for one run, and what the run is started with.

    Args:
        strategy: writes the steps.
        library: the actions they call.
        handlers: who carries out those that are neither the model's nor builtins.
        caller: who asks the model for the steps' values, where the strategy and they share a
            limit; None for the one it was prepared with.
    """

    strategy: Strategy
    library: Library
    handlers: Handlers = NONE
    caller: Caller | None = None


async def run_prepared(
    ready: Prepared,
    question: str,
    document: Source,
    caller: Caller,
    context: Context = UNLIMITED,
) -> Finished:
    """`run_strategy`, with what was prepared.

    Args:
        ready: for this run.
        question: what is asked.
        document: what ``CTX`` is.
        caller: the one it was prepared with.
        context: the model's window, and what to do with a document that is longer.

    Raises:
        RunError: a step was rejected, does not fit the window, or has no output.
        ModelError: the strategy's own calls got no usable answer.
    """
    return await run_strategy(
        ready.strategy,
        question,
        document,
        ready.library,
        ready.caller or caller,
        context,
        ready.handlers,
    )
